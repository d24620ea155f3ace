use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
enum Op {
    #[key("charge")]
    Charge,
    Refund,
}

fn main() {}
