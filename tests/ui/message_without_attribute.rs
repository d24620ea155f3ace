use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
struct Charge {
    order_id: u64,
}

fn main() {}
