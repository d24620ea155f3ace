use idempotent_jobs::prelude::*;

#[derive(KeyPart)]
#[key("id")]
struct Id(#[key("number")] u64);

fn main() {}
