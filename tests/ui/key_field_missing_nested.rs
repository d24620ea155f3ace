use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    customer: Customer,
}

#[derive(serde::Deserialize)]
struct Customer {
    id: u64,
}

#[idempotent_job(topic = "orders", key = "customer.name")]
async fn charge(_tx: &mut PgTx, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
