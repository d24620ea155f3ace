use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
enum Op {}

fn main() {}
