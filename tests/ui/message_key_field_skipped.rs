use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id, part")]
struct Charge {
    #[serde(skip)]
    order_id: u64,
    #[serde(skip_serializing)]
    part: u32,
}

fn main() {}
