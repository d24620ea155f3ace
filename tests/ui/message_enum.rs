use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id")]
enum Charge {
    Order { order_id: u64 },
}

fn main() {}
