use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    customer: Option<Customer>,
}

#[derive(serde::Deserialize)]
struct Customer {
    id: u64,
}

#[idempotent_job(topic = "orders", key = "customer.id")]
async fn charge(_tx: &mut PgTx, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
