use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
struct Rate(f64);

fn main() {}
