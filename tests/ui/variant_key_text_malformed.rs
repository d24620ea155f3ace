use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
enum Op {
    #[key("")]
    Charge,
    #[key = "refund"]
    Refund,
    #[key(void)]
    Void,
    #[key("a")]
    #[key("b")]
    Both,
}

fn main() {}
