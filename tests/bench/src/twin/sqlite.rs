//! On SQLite, which has one writer: one connection, one message after another. Frozen.

use std::str::FromStr;

use rdkafka::consumer::StreamConsumer;
use rdkafka::message::{Message, OwnedMessage};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use super::{JOB, decode};
use crate::Failure;
use crate::options::Measured;
use crate::progress::Progress;

const CLAIM: &str = "INSERT INTO idempotent_jobs_processed \
    (job, key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\") \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING";

const EFFECT: &str = "INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)";

pub async fn consume(
    consumer: &StreamConsumer,
    measured: &Measured,
    per_transaction: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut conn = SqliteConnectOptions::from_str(&measured.database)?
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .connect()
        .await?;
    let mut left = usize::try_from(measured.messages)?;
    while left > 0 {
        let together = left.min(per_transaction);
        let mut messages = Vec::with_capacity(together);
        for _ in 0..together {
            messages.push(consumer.recv().await?.detach());
            progress.begin();
        }
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
        for message in &messages {
            process(&mut tx, message, &measured.group).await?;
        }
        tx.commit().await?;
        progress.done(together as u64);
        left -= together;
    }
    conn.close().await?;
    Ok(())
}

async fn process(conn: &mut SqliteConnection, message: &OwnedMessage, group: &str) -> Result<(), Failure> {
    let decoded = decode(message)?;
    let claimed = sqlx::query(CLAIM)
        .bind(JOB)
        .bind(&decoded.key)
        .bind(&decoded.fingerprint[..])
        .bind("twin")
        .bind(group)
        .bind(message.topic())
        .bind(message.partition())
        .bind(message.offset())
        .execute(&mut *conn)
        .await?;
    if claimed.rows_affected() == 1 {
        sqlx::query(EFFECT).bind(decoded.charge.order_id).bind(decoded.charge.amount_cents).execute(&mut *conn).await?;
    }
    Ok(())
}
