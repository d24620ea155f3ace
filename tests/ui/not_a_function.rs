use idempotent_jobs::prelude::*;

#[idempotent_job(topic = "orders", key = "order_id")]
struct Charge {
    order_id: u64,
}

fn main() {}
