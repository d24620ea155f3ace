use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders", key = "order_id")]
async fn charge(_tx: &mut PgTx, _job: Charge, _metas: Vec<Meta>) -> JobResult {
    Ok(())
}

fn main() {}
