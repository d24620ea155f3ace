//! Many jobs a transaction.

use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, SqliteTx};

use crate::message::Charge;

#[idempotent_job(topic = "bench-grouped", key = "order_id, op", shared_tx = 100)]
async fn charge_shared(tx: &mut PgTx, job: Charge) -> JobResult {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(job.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}

/// One statement for the effects of all.
#[idempotent_job(topic = "bench-grouped", key = "order_id, op", batch = 100)]
async fn charge_batch(tx: &mut PgTx, jobs: Vec<Charge>) -> JobResult {
    let (orders, amounts): (Vec<i64>, Vec<i64>) = jobs.iter().map(|job| (job.order_id, job.amount_cents)).unzip();
    sqlx::query("INSERT INTO charges (order_id, amount_cents) SELECT * FROM unnest($1::bigint[], $2::bigint[])")
        .bind(orders)
        .bind(amounts)
        .execute(&mut *tx)
        .await?;
    Ok(())
}

/// The same over a long backlog.
#[idempotent_job(topic = "bench-backlog", key = "order_id, op", batch = 100)]
async fn charge_backlog(tx: &mut PgTx, jobs: Vec<Charge>) -> JobResult {
    charge_batch(tx, jobs).await
}

#[idempotent_job(topic = "bench-grouped", key = "order_id, op", shared_tx = 100)]
async fn charge_sqlite_shared(tx: &mut SqliteTx, job: Charge) -> JobResult {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(job.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}
