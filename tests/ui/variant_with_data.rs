use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
enum Op {
    #[key("charge")]
    Charge(u64),
    #[key("refund")]
    Refund { id: u64 },
}

fn main() {}
