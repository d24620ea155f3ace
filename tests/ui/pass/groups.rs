//! Jobs that share transactions, batch jobs with every kind of argument, and the orders they keep.

use idempotent_jobs::prelude::*;
use idempotent_jobs::{Context, ExtractBatch, States};

#[derive(serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id", partition_by = "order_id")]
struct Charge {
    order_id: u64,
}

#[derive(Clone)]
struct Mailer;

struct Tenant(String);

impl Extract for Tenant {
    fn extract(context: &Context) -> Result<Self, JobError> {
        Ok(Self(Meta::extract(context)?.topic))
    }
}

/// The latest time of a batch.
struct Latest(Option<i64>);

impl ExtractBatch for Latest {
    fn check(states: &States) -> Result<(), String> {
        <Vec<Meta>>::check(states)
    }

    fn extract_batch(contexts: &[Context]) -> Result<Self, JobError> {
        let metas = <Vec<Meta>>::extract_batch(contexts)?;
        Ok(Self(metas.iter().filter_map(|meta| meta.timestamp).max()))
    }
}

#[idempotent_job(topic = "orders", key = "order_id", batch = 100, isolation = serializable, timeout = "5s")]
async fn charge(
    _tx: &mut PgTx,
    jobs: Vec<Charge>,
    State(_mailer): State<Mailer>,
    metas: Vec<Meta>,
    headers: Vec<Headers>,
    tenants: Vec<Tenant>,
    Latest(latest): Latest,
) -> JobResult {
    for (((job, meta), headers), tenant) in jobs.iter().zip(&metas).zip(&headers).zip(&tenants) {
        if headers.get("skip").is_some() || tenant.0 != meta.topic || meta.timestamp > latest {
            return Err(format!("order {}", job.order_id).into());
        }
    }
    Ok(())
}

#[idempotent_job(batch = 2, ordering = none)]
async fn audit(_tx: &mut SqliteTx, mut jobs: std::vec::Vec<Charge>, metas: Vec<Meta>) -> JobResult {
    jobs.sort_by_key(|job| job.order_id);
    assert_eq!(jobs.len(), metas.len());
    Ok(())
}

#[idempotent_job(topic = "orders", key = "order_id", shared_tx = 50, ordering = key)]
async fn shared(_tx: &mut PgTx, _job: Charge, _meta: Meta) -> JobResult {
    Ok(())
}

#[idempotent_job(shared_tx = 2, ordering = partition)]
async fn of_message(_tx: &mut SqliteTx, _job: Charge) -> JobResult {
    Ok(())
}

/// An array on the wire is the payload of one job behind a type of its own.
#[derive(serde::Deserialize)]
struct Charges(Vec<Charge>);

#[idempotent_job(topic = "lists", key = "header(ce_id)")]
async fn list(tx: &mut SqliteTx, Charges(jobs): Charges) -> JobResult {
    audit(tx, jobs, Vec::new()).await
}
