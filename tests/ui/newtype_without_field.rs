use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
struct Id;

fn main() {}
