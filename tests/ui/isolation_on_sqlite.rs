use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders", key = "order_id", isolation = serializable)]
async fn charge(_tx: &mut SqliteTx, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
