use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    part: Option<u64>,
}

#[idempotent_job(topic = "orders", key = "part")]
async fn charge(_tx: &mut PgTx, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
