use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders/eu", key = "order", retires = 3)]
fn charge(_tx: &mut String, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
