use idempotent_jobs::prelude::*;

#[derive(JobMessage)]
#[message(topic = "orders", key = "order_id")]
struct Charge {
    order_id: u64,
    rate: f64,
}

fn main() {}
