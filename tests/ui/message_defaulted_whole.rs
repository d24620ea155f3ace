use idempotent_jobs::prelude::*;

#[derive(Default, serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id")]
#[serde(default)]
struct Charge {
    order_id: u64,
    rate: f64,
}

fn main() {}
