use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
#[message(event = "charged")]
struct Charge {
    order_id: u64,
    rate: f64,
}

fn main() {}
