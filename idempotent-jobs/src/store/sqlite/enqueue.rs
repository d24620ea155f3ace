//! Stores records in the outbox.

use std::time::{Duration, UNIX_EPOCH};

use sqlx::{Error, SqliteConnection};

use crate::key::hex;
use crate::outgoing::{Due, Outgoing};
use crate::store::enqueue::{Row as Found, Waiting};

/// Stores records: of each whether it is new.
pub(super) async fn enqueue(conn: &mut SqliteConnection, records: &[Outgoing]) -> Result<Vec<bool>, Error> {
    let mut stored = Vec::with_capacity(records.len());
    for record in records {
        stored.push(one(conn, record).await?);
    }
    Ok(stored)
}

async fn one(conn: &mut SqliteConnection, record: &Outgoing) -> Result<bool, Error> {
    let key = record.key.stored().into_owned();
    let whole = record.key.as_str();
    let (at, after) = due(record.due);
    let done = sqlx::query(
        "INSERT INTO main.idempotent_jobs_outbox (topic, key, long_key, key_parts, event, partition_key, payload, headers, \
         shard, ordered, size, state, due_at) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, \
         CASE WHEN $12 IS NULL AND $13 IS NULL THEN 'ready' ELSE 'later' END, \
         COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', $12, 'unixepoch'), \
         strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+' || $13 || ' seconds')) WHERE true \
         ON CONFLICT (topic, key) DO NOTHING",
    )
    .bind(record.topic())
    .bind(&key)
    .bind((key != whole).then_some(whole))
    .bind(&record.key_parts)
    .bind(record.event)
    .bind(&record.partition_key)
    .bind(record.payload.as_deref())
    .bind(headers(record))
    .bind(i64::from(record.stripe() % crate::store::SHARDS))
    .bind(record.ordered)
    .bind(i64::try_from(record.size()).unwrap_or(i64::MAX))
    .bind(at)
    .bind(after)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What waits under a record's key.
pub(super) async fn waiting(conn: &mut SqliteConnection, record: &Outgoing) -> Result<Option<Waiting>, Error> {
    let found: Option<Found> = sqlx::query_as(
        "SELECT event, partition_key, payload FROM main.idempotent_jobs_outbox WHERE topic = $1 AND key = $2",
    )
    .bind(record.topic())
    .bind(record.key.stored().into_owned())
    .fetch_optional(conn)
    .await?;
    Ok(found.map(Waiting::from))
}

/// `[["traceparent","3030"],["gone",null]]`: values in hex, since they need not be text.
fn headers(record: &Outgoing) -> String {
    let pairs: Vec<(&str, Option<String>)> =
        record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref().map(hex))).collect();
    serde_json::to_string(&pairs).expect("texts and nulls are JSON")
}

/// Seconds since the Unix epoch, or from now on. What is beyond the year 9999 is as good as never.
fn due(due: Due) -> (Option<f64>, Option<f64>) {
    const NEVER: f64 = 253_402_300_799.0;
    match due {
        Due::Now => (None, None),
        Due::At(time) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            (Some(since.as_secs_f64().min(NEVER)), None)
        }
        Due::After(wait) => (None, Some(wait.as_secs_f64().min(NEVER / 2.0))),
    }
}
