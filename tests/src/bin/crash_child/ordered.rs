//! Jobs whose order is looked at: one with a transaction a message, one that shares them, one
//! that takes batches. Each fails now and then, as the message's seed says.

use idempotent_jobs::PgTx;
use idempotent_jobs::prelude::*;
use serde::Deserialize;
use sqlx::Executor;
use tests::database::effect_pg;
use tests::order::Mishap;

#[derive(Debug, Deserialize)]
struct Step {
    id: i64,
    seed: u64,
}

impl Step {
    /// Goes wrong, or not, before its effect or after it.
    async fn stumble(&self, tx: &mut PgTx, meta: &Meta, after: bool) -> JobResult {
        match Mishap::of(self.seed, self.id, meta.attempt, after) {
            None => Ok(()),
            Some(Mishap::Error) => Err("the handler says no".into()),
            Some(Mishap::Panic) => panic!("the handler panics"),
            Some(Mishap::Hang) => std::future::pending().await,
            Some(Mishap::Swallow) => {
                let _ = (&mut *tx).execute("INSERT INTO there_is_no_such_table VALUES (1)").await;
                Ok(())
            }
        }
    }

    async fn run(&self, tx: &mut PgTx, job: &str, meta: &Meta) -> JobResult {
        self.stumble(tx, meta, false).await?;
        effect_pg(tx, job, self.id, meta).await?;
        self.stumble(tx, meta, true).await
    }
}

#[idempotent_job(topic = "ordered_single", key = "id", retries = 1000, backoff = "1ms..50ms", timeout = "1s")]
async fn ordered_single_postgres(tx: &mut PgTx, step: Step, meta: Meta) -> JobResult {
    step.run(tx, "ordered_single_postgres", &meta).await
}

#[idempotent_job(
    topic = "ordered_shared",
    key = "id",
    shared_tx = 50,
    retries = 1000,
    backoff = "1ms..50ms",
    timeout = "1s"
)]
async fn ordered_shared_postgres(tx: &mut PgTx, step: Step, meta: Meta) -> JobResult {
    step.run(tx, "ordered_shared_postgres", &meta).await
}

#[idempotent_job(
    topic = "ordered_batch",
    key = "id",
    batch = 50,
    retries = 1000,
    backoff = "1ms..50ms",
    timeout = "1s"
)]
async fn ordered_batch_postgres(tx: &mut PgTx, steps: Vec<Step>, metas: Vec<Meta>) -> JobResult {
    for (step, meta) in steps.iter().zip(&metas) {
        step.run(tx, "ordered_batch_postgres", meta).await?;
    }
    Ok(())
}
