use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id.region")]
struct Charge {
    order_id: u64,
    rate: f64,
}

fn main() {}
