//! The job of the README: charges an order once, however often its message is delivered.
//!
//! ```sh
//! DATABASE_URL=postgres://… KAFKA_BROKERS=… KAFKA_GROUP_ID=billing cargo run --bin charge
//! ```
//!
//! The topic `orders` is to be there, and the table `charges (order_id BIGINT, amount_cents BIGINT)`.

use idempotent_jobs::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id, op", partition_by = "order_id")]
struct Charge {
    order_id: i64,
    op: Op,
    amount_cents: i64,
}

/// The texts are written out, so that renaming a variant cannot change a key.
#[derive(Serialize, Deserialize, KeyPart)]
enum Op {
    #[key("charge")]
    Charge,
    #[key("refund")]
    Refund,
}

#[idempotent_job(topic = "orders", key = "order_id, op")]
async fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(job.amount_cents)
        .execute(&mut *tx)
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), idempotent_jobs::Error> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    idempotent_jobs::run().await
}
