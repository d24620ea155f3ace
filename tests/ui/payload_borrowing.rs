use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge<'a> {
    order_id: u64,
    note: &'a str,
}

#[idempotent_job(topic = "orders", key = "order_id")]
async fn charge(_tx: &mut PgTx, _job: Charge<'_>) -> JobResult {
    Ok(())
}

fn main() {}
