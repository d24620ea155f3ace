use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders", key = "order_id", batch = 100, shared_tx = 50)]
async fn charge(_tx: &mut PgTx, _jobs: Vec<Charge>) -> JobResult {
    Ok(())
}

fn main() {}
