//! Stores records in the outbox.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use sqlx::{Error, PgConnection};

use crate::outgoing::{Due, Outgoing};
use crate::store::enqueue::{Row as Found, Waiting};

/// A call to relays that are asleep. Calling always would make all commits of the database wait for
/// each other, since NOTIFY takes a lock of the whole server while it commits.
macro_rules! call {
    () => {
        "(SELECT pg_catalog.pg_notify('idempotent_jobs_outbox', '') WHERE EXISTS (SELECT FROM idempotent_jobs.relays \
         WHERE asleep AND alive_until > pg_catalog.clock_timestamp())) IS NULL"
    };
}

/// One record that is due now: what is mostly enqueued, and cheaper than one of [`MANY`].
///
/// The lock first (1768187246 is one half of its number, the stripe the other), then the row, whose
/// id is drawn behind it. OFFSET keeps the subquery as it is: it is run before the row is made.
macro_rules! one {
    ($from:literal) => {
        concat!(
            "INSERT INTO idempotent_jobs.outbox (topic, key, long_key, key_parts, event, partition_key, payload, \
             shard, size, header_names, header_values, ordered) \
             SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bytea, $8::smallint, $9::integer, \
             $10::text[], $11::bytea[], $12::integer IS NOT NULL ",
            $from,
            " ON CONFLICT (topic, key) DO NOTHING RETURNING ",
            call!()
        )
    };
}

const ONE: &str = one!("FROM (SELECT pg_catalog.pg_advisory_xact_lock(1768187246, $12) OFFSET 0) AS turn");

const ONE_UNORDERED: &str = one!("");

/// The same of many records, or of one with more to it: all the locks, then the rows in their order.
///
/// Of several arrays, `unnest` is syntax and bears no schema.
const MANY: &str = concat!(
    "INSERT INTO idempotent_jobs.outbox AS o (topic, key, long_key, key_parts, event, partition_key, payload, \
     shard, size, header_names, header_values, ordered, state, due_at) \
     SELECT r.*, $10, $11, $12, CASE WHEN $13::bigint IS NULL AND $14::bigint IS NULL THEN 'ready' ELSE 'later' END, \
     COALESCE(timestamptz 'epoch' + $13 * interval '1 microsecond', \
     pg_catalog.clock_timestamp() + $14 * interval '1 microsecond') \
     FROM (SELECT pg_catalog.count(*) FROM (SELECT pg_catalog.pg_advisory_xact_lock(1768187246, stripe) \
     FROM pg_catalog.unnest($15::integer[]) AS stripe OFFSET 0) AS turn) AS locked, \
     unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::smallint[], \
     $9::integer[]) AS r ON CONFLICT (topic, key) DO NOTHING RETURNING o.topic, o.key, ",
    call!()
);

/// Stores records of equal headers and due time: of each whether it is new.
pub(super) async fn enqueue(
    conn: &mut PgConnection,
    records: &[Outgoing],
    stripes: &[i32],
) -> Result<Vec<bool>, Error> {
    match (records, stripes) {
        ([], _) => Ok(Vec::new()),
        ([record], [stripe]) if record.ordered && record.due == Due::Now => {
            Ok(vec![one(conn, record, Some(*stripe)).await?])
        }
        ([record], []) if !record.ordered && record.due == Due::Now => Ok(vec![one(conn, record, None).await?]),
        _ => Ok(which(records, many(conn, records, stripes).await?)),
    }
}

async fn one(conn: &mut PgConnection, record: &Outgoing, stripe: Option<i32>) -> Result<bool, Error> {
    let row = Row::of(record);
    let (names, values) = headers(record);
    let stored = sqlx::query(if stripe.is_some() { ONE } else { ONE_UNORDERED })
        .bind(record.topic())
        .bind(row.key)
        .bind(row.long_key)
        .bind(&record.key_parts)
        .bind(record.event)
        .bind(&record.partition_key)
        .bind(record.payload.as_deref())
        .bind(row.shard)
        .bind(row.size)
        .bind(names)
        .bind(values)
        .bind(stripe)
        .execute(conn)
        .await?;
    Ok(stored.rows_affected() == 1)
}

/// Topic and key of those that were stored.
async fn many(conn: &mut PgConnection, records: &[Outgoing], stripes: &[i32]) -> Result<Vec<(String, String)>, Error> {
    let first = &records[0];
    let rows: Vec<Row<'_>> = records.iter().map(Row::of).collect();
    let (names, values) = headers(first);
    let (at, after) = due(first.due);
    let stored: Vec<(String, String, bool)> = sqlx::query_as(MANY)
        .bind(records.iter().map(Outgoing::topic).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.long_key).collect::<Vec<_>>())
        .bind(records.iter().map(|record| record.key_parts.as_str()).collect::<Vec<_>>())
        .bind(records.iter().map(|record| record.event).collect::<Vec<_>>())
        .bind(records.iter().map(|record| record.partition_key.as_deref()).collect::<Vec<_>>())
        .bind(records.iter().map(|record| record.payload.as_deref()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.shard).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.size).collect::<Vec<_>>())
        .bind(names)
        .bind(values)
        .bind(first.ordered)
        .bind(at)
        .bind(after)
        .bind(stripes)
        .fetch_all(conn)
        .await?;
    Ok(stored.into_iter().map(|(topic, key, _)| (topic, key)).collect())
}

/// What waits under a record's key.
pub(super) async fn waiting(conn: &mut PgConnection, record: &Outgoing) -> Result<Option<Waiting>, Error> {
    let found: Option<Found> = sqlx::query_as(
        "SELECT event, partition_key, payload FROM idempotent_jobs.outbox WHERE topic = $1 AND key = $2",
    )
    .bind(record.topic())
    .bind(record.key.stored())
    .fetch_optional(conn)
    .await?;
    Ok(found.map(Waiting::from))
}

/// Which of the keys, in their order, are among those that were stored; of equal ones the first.
fn which(records: &[Outgoing], stored: Vec<(String, String)>) -> Vec<bool> {
    let mut stored: BTreeSet<(String, String)> = stored.into_iter().collect();
    records.iter().map(|record| stored.remove(&(record.topic().to_owned(), record.key.stored().into_owned()))).collect()
}

/// What a row has beside the record itself.
struct Row<'r> {
    key: String,
    long_key: Option<&'r str>,
    shard: i16,
    size: i32,
}

impl<'r> Row<'r> {
    fn of(record: &'r Outgoing) -> Self {
        let key = record.key.stored().into_owned();
        let whole = record.key.as_str();
        Self {
            long_key: (key != whole).then_some(whole),
            key,
            shard: i16::from(record.stripe() % crate::store::SHARDS),
            size: i32::try_from(record.size()).unwrap_or(i32::MAX),
        }
    }
}

fn headers(record: &Outgoing) -> (Vec<&str>, Vec<Option<&[u8]>>) {
    record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).unzip()
}

/// Microseconds since the Unix epoch, or from now on. What is beyond the year 9999 is as good as never.
fn due(due: Due) -> (Option<i64>, Option<i64>) {
    const NEVER: i64 = 253_402_300_799_000_000;
    const AGES: i64 = NEVER / 2;
    let micros = |time: Duration, most: i64| i64::try_from(time.as_micros()).unwrap_or(most).min(most);
    match due {
        Due::Now => (None, None),
        Due::At(time) => (Some(micros(time.duration_since(UNIX_EPOCH).unwrap_or_default(), NEVER)), None),
        Due::After(wait) => (None, Some(micros(wait, AGES))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_off_is_as_good_as_never() {
        assert_eq!(due(Due::After(Duration::MAX)), (None, Some(253_402_300_799_000_000 / 2)));
        assert_eq!(due(Due::At(UNIX_EPOCH - Duration::from_secs(1))), (Some(0), None));
        assert_eq!(due(Due::At(UNIX_EPOCH + Duration::from_millis(5))), (Some(5000), None));
    }
}
