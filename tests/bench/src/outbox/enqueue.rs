//! One record a statement into the outbox, beside the same row by a plain insert.

use std::time::Instant;

use idempotent_jobs::outbox;
use sqlx::{Connection, Executor, PgConnection};

use super::record::{outgoing, placed};
use crate::Failure;
use crate::postgres::Postgres;

/// Statements of a transaction: what is measured is the statement and not the commit.
const TOGETHER: u64 = 100;

const PLAIN: &str = "CREATE TABLE IF NOT EXISTS plain ( \
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, key text NOT NULL, \
    partition_key text NOT NULL, payload bytea NOT NULL, at timestamptz NOT NULL DEFAULT now())";

/// Rows a second.
pub async fn insert(postgres: &Postgres, rows: u64) -> Result<f64, Failure> {
    let mut conn = emptied(postgres).await?;
    let began = Instant::now();
    for from in (0..rows).step_by(usize::try_from(TOGETHER)?) {
        let mut tx = conn.begin().await?;
        for n in from..from + TOGETHER {
            let placed = placed(n);
            let order = placed.order_id.to_string();
            sqlx::query("INSERT INTO plain (topic, key, partition_key, payload) VALUES ($1, $2, $3, $4)")
                .bind("bench-relay")
                .bind(format!("[{order}]"))
                .bind(&order)
                .bind(serde_json::to_vec(&placed)?)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
    }
    Ok(rate(rows, began))
}

/// Records a second.
pub async fn enqueue(postgres: &Postgres, rows: u64) -> Result<f64, Failure> {
    let mut conn = emptied(postgres).await?;
    let began = Instant::now();
    for from in (0..rows).step_by(usize::try_from(TOGETHER)?) {
        let mut tx = conn.begin().await?;
        for n in from..from + TOGETHER {
            outbox::enqueue(&mut *tx, &placed(n)).await?;
        }
        tx.commit().await?;
    }
    let rate = rate(rows, began);
    conn.execute("TRUNCATE idempotent_jobs.outbox").await?;
    Ok(rate)
}

/// Fills the outbox with records for a topic of this run.
pub async fn fill(postgres: &Postgres, topic: &str, records: u64) -> Result<(), Failure> {
    let mut conn = emptied(postgres).await?;
    for from in (0..records).step_by(10_000) {
        let chunk = (from..records.min(from + 10_000)).map(outgoing).collect::<Result<Vec<_>, _>>()?;
        outbox::enqueue_all(&mut conn, chunk).await?;
    }
    sqlx::query("UPDATE idempotent_jobs.outbox SET topic = $1").bind(topic).execute(&mut conn).await?;
    conn.execute("VACUUM (ANALYZE) idempotent_jobs.outbox").await?;
    conn.execute("CHECKPOINT").await?;
    Ok(conn.close().await?)
}

async fn emptied(postgres: &Postgres) -> Result<PgConnection, Failure> {
    let mut conn = postgres.connect().await?;
    conn.execute(PLAIN).await?;
    conn.execute("TRUNCATE idempotent_jobs.outbox, plain").await?;
    conn.execute("CHECKPOINT").await?;
    Ok(conn)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn rate(rows: u64, began: Instant) -> f64 {
    rows as f64 / began.elapsed().as_secs_f64()
}
