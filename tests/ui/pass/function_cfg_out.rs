//! A job that is not compiled is not registered either.

use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders", key = "order_id")]
#[cfg(any())]
async fn below(tx: &mut NoSuchHandle, job: NoSuchPayload) -> JobResult {
    NoSuchFunction()
}

#[cfg(any())]
#[idempotent_job(topic = "orders", key = "order_id")]
async fn above(tx: &mut NoSuchHandle, job: NoSuchPayload) -> JobResult {
    NoSuchFunction()
}

#[idempotent_job(topic = "orders", key = "order_id")]
#[cfg_attr(all(), cfg(any()), inline)]
async fn by_attribute(tx: &mut NoSuchHandle, job: NoSuchPayload) -> JobResult {
    NoSuchFunction()
}

#[idempotent_job(topic = "orders", key = "order_id")]
#[cfg_attr(all(), inline, cfg(all()))]
async fn kept(_tx: &mut PgTx, _job: Charge) -> JobResult {
    Ok(())
}

#[test]
fn kept_is_there() {
    let _ = kept;
}
