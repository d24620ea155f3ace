use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id")]
struct Charge<T> {
    order_id: u64,
    extra: T,
}

fn main() {}
