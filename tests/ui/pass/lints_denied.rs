//! Generated code raises no lint that a user may have denied.
#![forbid(unsafe_code)]
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    unused,
    unused_qualifications,
    unused_lifetimes,
    unused_results,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    trivial_casts,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    let_underscore_drop,
    variant_size_differences,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]

use idempotent_jobs::prelude::*;

/// A charge.
#[derive(Debug, serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id, op", partition_by = "order_id")]
pub struct Charge {
    /// The order.
    pub order_id: OrderId,
    /// What is done.
    pub op: Op,
}

/// An order's id.
#[derive(Debug, serde::Serialize, serde::Deserialize, KeyPart)]
pub struct OrderId(u64);

/// What is done.
#[derive(Debug, serde::Serialize, serde::Deserialize, KeyPart)]
pub enum Op {
    /// Money comes.
    #[key("charge")]
    Charge,
}

#[idempotent_job(topic = "orders", key = "order_id, op", isolation = repeatable_read, compare = "op")]
async fn charge(_tx: &mut PgTx, job: Charge, State(limit): State<u64>) -> JobResult {
    settled(job.order_id.0 + limit).await;
    Ok(())
}

#[idempotent_job]
async fn audit(_tx: &mut SqliteTx, job: Charge) -> JobResult {
    settled(job.order_id.0).await;
    Ok(())
}

#[idempotent_job(batch = 10, name = "audit-many", ordering = none)]
async fn audit_many(_tx: &mut SqliteTx, jobs: Vec<Charge>, State(limit): State<u64>, metas: Vec<Meta>) -> JobResult {
    settled(jobs.iter().map(|job| job.order_id.0).sum::<u64>() + limit).await;
    drop(metas);
    Ok(())
}

async fn settled(order: u64) {
    assert!(std::future::ready(order).await > 0);
}
