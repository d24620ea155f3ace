use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
struct Id {
    region: u32,
    number: u32,
}

fn main() {}
