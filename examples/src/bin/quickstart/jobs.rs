//! The message and the job: all that a user writes.

use idempotent_jobs::prelude::*;
use serde::{Deserialize, Serialize};

/// One purchase, as it travels.
///
/// `run` tells one run of this program from the next on the same database: without it, the
/// orders of a second run would be duplicates of the first.
#[derive(Debug, Clone, Serialize, Deserialize, JobMessage)]
#[message(topic = "quickstart-orders", key = "run, order_id", partition_by = "customer_id")]
pub struct Order {
    pub run: String,
    pub order_id: i64,
    pub customer_id: i64,
    pub ordered_on: String,
    pub quantity: i64,
    pub amount_cents: i64,
}

/// Nothing in this table keeps an order from being there twice: only the job's key does.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS quickstart_effects (
    run TEXT NOT NULL, order_id BIGINT NOT NULL, customer_id BIGINT NOT NULL,
    ordered_on TEXT NOT NULL, quantity BIGINT NOT NULL, amount_cents BIGINT NOT NULL)";

const RECORD: &str = "INSERT INTO quickstart_effects (run, order_id, customer_id, ordered_on, quantity, amount_cents)
    VALUES ($1, $2, $3, $4, $5, $6)";

/// Records an order in SQLite.
#[idempotent_job(topic = "quickstart-orders", key = "run, order_id")]
pub async fn record_in_sqlite(tx: &mut SqliteTx, order: Order) -> JobResult {
    sqlx::query(RECORD)
        .bind(order.run)
        .bind(order.order_id)
        .bind(order.customer_id)
        .bind(order.ordered_on)
        .bind(order.quantity)
        .bind(order.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}

/// The same in PostgreSQL: the handle's type names the database.
#[idempotent_job(topic = "quickstart-orders", key = "run, order_id")]
pub async fn record_in_postgres(tx: &mut PgTx, order: Order) -> JobResult {
    sqlx::query(RECORD)
        .bind(order.run)
        .bind(order.order_id)
        .bind(order.customer_id)
        .bind(order.ordered_on)
        .bind(order.quantity)
        .bind(order.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}
