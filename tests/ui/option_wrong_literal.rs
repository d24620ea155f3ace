use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = orders, key = 1, retries = "5", timeout = 30, isolation = "serializable")]
async fn charge(_tx: &mut PgTx, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
