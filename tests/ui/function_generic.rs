use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders", key = "order_id")]
async fn charge<'a, T, const N: usize>(_tx: &'a mut PgTx, _job: T) -> JobResult {
    Ok(())
}

fn main() {}
