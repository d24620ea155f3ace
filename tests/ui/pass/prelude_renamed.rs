//! The user's own `Result`, `Ok`, `Option`, `Box` … are none of the macros' business.
#![allow(dead_code, unused_macros)]

use idempotent_jobs::prelude::*;

type JobOutcome = JobResult;

struct Ok;
struct Some;
struct None;
struct Result;
struct Option;
struct Box;
struct Vec;
struct String;

trait Send {}
trait Sync {}
trait Future {}
trait Into {}
mod std {}
mod core {}
macro_rules! vec {
    () => {
        compile_error!("not this one")
    };
}
macro_rules! panic {
    () => {
        compile_error!("not this one")
    };
}

#[derive(serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id, op", partition_by = "order_id")]
struct Charge {
    order_id: u64,
    op: Op,
}

#[derive(serde::Serialize, serde::Deserialize, KeyPart)]
enum Op {
    #[key("charge")]
    Charge,
}

#[idempotent_job(topic = "orders", key = "order_id, op")]
async fn charge(_tx: &mut PgTx, _job: Charge, _headers: Headers) -> JobOutcome {
    JobOutcome::Ok(())
}

#[idempotent_job(batch = 10, ordering = none)]
async fn charges(_tx: &mut PgTx, _jobs: ::std::vec::Vec<Charge>, _: ::std::vec::Vec<Meta>) -> JobOutcome {
    JobOutcome::Ok(())
}
