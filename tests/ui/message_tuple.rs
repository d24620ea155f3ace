use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "orders", key = "0")]
struct Charge(u64);

fn main() {}
