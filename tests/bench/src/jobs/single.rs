//! One job a transaction.

use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, SqliteTx};

use crate::message::Charge;

#[idempotent_job(topic = "bench-single", key = "order_id, op")]
async fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(job.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}

/// The same where more messages are needed: duplicates go by fast.
#[idempotent_job(topic = "bench-grouped", key = "order_id, op")]
async fn charge_again(tx: &mut PgTx, job: Charge) -> JobResult {
    charge(tx, job).await
}

#[idempotent_job(topic = "bench-sqlite", key = "order_id, op")]
async fn charge_sqlite(tx: &mut SqliteTx, job: Charge) -> JobResult {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(job.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}
