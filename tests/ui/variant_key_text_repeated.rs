use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
enum Op {
    #[key("charge")]
    Charge,
    #[key("charge")]
    Refund,
}

fn main() {}
