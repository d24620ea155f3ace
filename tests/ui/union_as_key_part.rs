use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
union Id {
    number: u32,
}

fn main() {}
