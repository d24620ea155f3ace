//! The relay's part of SQLite.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Error, Executor, Row as _, Sqlite, SqliteConnection};

use crate::store::line::Line;
use crate::store::relay::{Failure, Kept, LEASE, Place, RelayStore, Row, Shard, Share, Wanted};
use crate::store::{Dialect as _, StoreError};

/// What a power cut takes back of these is told again: a record is sent twice, with one key.
const FORGETTING: &str = "PRAGMA synchronous = NORMAL";

/// The relay's connections, apart from the workers' one. They wait for its transactions.
pub struct SqliteRelay {
    reader: Line<Sqlite>,
    marker: Line<Sqlite>,
    keeper: Line<Sqlite>,
}

impl SqliteRelay {
    /// Opens the file and brings our tables up to date.
    ///
    /// # Errors
    /// Says why the database cannot be used.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let options = Sqlite::open(url).await?;
        let line = || Line::new(options.clone(), FORGETTING);
        Ok(Self { reader: line(), marker: line(), keeper: line() })
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::driver::<Sqlite>(doing, error)
}

/// Whether a row lies behind a record of its partition key that is in such a state.
macro_rules! behind {
    ($row:literal, $state:literal) => {
        concat!(
            "(",
            $row,
            ".ordered AND EXISTS (SELECT 1 FROM main.idempotent_jobs_outbox AS b WHERE b.topic = ",
            $row,
            ".topic AND b.partition_key = ",
            $row,
            ".partition_key AND ",
            $state,
            " AND b.ordered AND b.id < ",
            $row,
            ".id))"
        )
    };
}

/// SQLite has no arrays, they come as JSON; and no LATERAL, but an IN with a LIMIT of its own for
/// each shard does the same.
const DUE: &str = concat!(
    "WITH due AS ( \
    SELECT o.* FROM json_each($1) AS s CROSS JOIN main.idempotent_jobs_outbox AS o ON o.id IN ( \
        SELECT i.id FROM (SELECT * FROM main.idempotent_jobs_outbox \
            WHERE shard = s.value AND state = 'ready' ORDER BY id LIMIT $7) AS i \
        WHERE i.id NOT IN (SELECT value FROM json_each($2)) \
        AND i.topic NOT IN (SELECT value FROM json_each($3)) \
        AND NOT ",
    behind!("i", "b.state <> 'ready' AND (b.attempts > 0 OR b.state = 'held')"),
    " ORDER BY i.id LIMIT $4)), \
summed AS (SELECT *, sum(size) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - size AS before FROM due) \
SELECT shard, id, topic, coalesce(long_key, key), key_parts, event, partition_key, payload, \
    headers, ordered, size, attempts \
FROM summed WHERE before < $5 ORDER BY id LIMIT $6"
);

const ANY_FAILED: &str = "\
SELECT EXISTS (SELECT 1 FROM main.idempotent_jobs_outbox WHERE state = 'failed'), \
    EXISTS (SELECT 1 FROM main.idempotent_jobs_outbox WHERE state = 'held')";

/// Of each shard the first ready rows: those before them leave, and then these are the first.
const HOLD: &str = concat!(
    "UPDATE main.idempotent_jobs_outbox SET state = 'held' WHERE id IN ( \
    SELECT o.id FROM main.idempotent_jobs_outbox AS o WHERE o.shard IN (SELECT value FROM json_each($1)) \
    AND o.state = 'ready' AND ",
    behind!("o", "b.state = 'failed'"),
    " LIMIT 1000)"
);

/// What they were behind is gone or goes again.
const LET_GO: &str = concat!(
    "UPDATE main.idempotent_jobs_outbox SET state = 'ready' WHERE id IN ( \
    SELECT o.id FROM main.idempotent_jobs_outbox AS o WHERE o.shard IN (SELECT value FROM json_each($1)) \
    AND o.state = 'held' AND NOT ",
    behind!("o", "b.state = 'failed'"),
    " LIMIT 10000)"
);

const PROMOTE: &str = "\
UPDATE main.idempotent_jobs_outbox SET state = 'ready', due_at = NULL WHERE id IN ( \
    SELECT id FROM main.idempotent_jobs_outbox \
    WHERE state = 'later' AND due_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ORDER BY due_at LIMIT 1000)";

/// Asked before [`PROMOTE`], which would take the write lock each time.
const PROMOTABLE: &str = "\
SELECT EXISTS (SELECT 1 FROM main.idempotent_jobs_outbox \
    WHERE state = 'later' AND due_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))";

const GONE: &str = "\
DELETE FROM main.idempotent_jobs_outbox WHERE id IN (SELECT value FROM json_each($1)) AND state = 'ready'";

const TO_SENT: &str = "\
INSERT INTO main.idempotent_jobs_sent (id, topic, key, long_key, key_parts, event, partition_key, payload, \
    headers, shard, ordered, size, first_at) \
SELECT id, topic, key, long_key, key_parts, event, partition_key, payload, headers, shard, ordered, size, \
    coalesce(first_at, enqueued_at) \
FROM main.idempotent_jobs_outbox WHERE id IN (SELECT value FROM json_each($1)) AND state = 'ready' \
ON CONFLICT (id) DO NOTHING";

const PURGE: &str = "\
DELETE FROM main.idempotent_jobs_sent WHERE id IN (SELECT id FROM main.idempotent_jobs_sent \
    WHERE sent_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', $1) ORDER BY sent_at LIMIT 1000)";

/// Fenced by the owner: a relay that was asleep knows nothing of what became of the row since.
const FAILED: &str = "\
UPDATE main.idempotent_jobs_outbox AS o SET attempts = o.attempts + 1, last_error = f.value ->> 1, \
    state = iif(f.value ->> 2 IS NULL, 'failed', 'later'), \
    due_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', f.value ->> 2) \
FROM json_each($2) AS f WHERE o.id = f.value ->> 0 AND o.state = 'ready' \
AND EXISTS (SELECT 1 FROM main.idempotent_jobs_shards AS s WHERE s.shard = o.shard AND s.owner = $1)";

const ALIVE: &str = "\
INSERT INTO main.idempotent_jobs_relays (id, asleep, alive_until) \
VALUES ($1, $2, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', $3)) \
ON CONFLICT (id) DO UPDATE SET asleep = excluded.asleep, alive_until = excluded.alive_until";

const BURY: &str = "\
DELETE FROM main.idempotent_jobs_relays WHERE alive_until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

const LIVE: &str = "\
SELECT count(*) FROM main.idempotent_jobs_relays WHERE alive_until >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// Also when the lease is over: as long as the owner's name stands, nobody else had the shard.
const RENEW: &str = "\
UPDATE main.idempotent_jobs_shards SET owned_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', $2) \
WHERE owner = $1 RETURNING shard";

const TAKE: &str = "\
UPDATE main.idempotent_jobs_shards SET owner = $1, owned_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', $2) \
WHERE shard IN (SELECT shard FROM main.idempotent_jobs_shards \
    WHERE owner IS NULL OR owned_until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ORDER BY shard LIMIT $3) \
RETURNING shard";

const RELEASE: &str = "\
UPDATE main.idempotent_jobs_shards SET owner = NULL, owned_until = NULL \
WHERE owner = $1 AND shard IN (SELECT value FROM json_each($2))";

const OLDEST: &str = "\
SELECT (julianday('now') - julianday(min(o.enqueued_at))) * 86400.0 FROM json_each($1) AS s \
JOIN main.idempotent_jobs_outbox AS o ON o.id = (SELECT i.id FROM main.idempotent_jobs_outbox AS i \
    WHERE i.shard = s.value AND i.state = 'ready' ORDER BY i.id LIMIT 1)";

#[async_trait]
impl RelayStore for SqliteRelay {
    async fn due(&self, wanted: &Wanted) -> Result<Vec<Row>, StoreError> {
        const DOING: &str = "reading the outbox";
        let mut line = self.reader.take().await?;
        let rows = sqlx::query(DUE)
            .bind(json(&wanted.shards))
            .bind(json(&wanted.except))
            .bind(json(&wanted.except_topics))
            .bind(wanted.per_shard())
            .bind(i64::try_from(wanted.bytes.max(1)).unwrap_or(i64::MAX))
            .bind(i64::try_from(wanted.rows).unwrap_or(i64::MAX))
            // No limit is a negative one.
            .bind(wanted.longest_walk().unwrap_or(-1))
            .fetch_all(&mut *line)
            .await
            .map_err(failed(DOING))?;
        line.done();
        rows.iter().map(row).collect::<Result<_, _>>().map_err(failed(DOING))
    }

    async fn promote(&self) -> Result<u64, StoreError> {
        const DOING: &str = "making delayed records ready";
        let mut line = self.reader.take().await?;
        let any: bool = sqlx::query_scalar(PROMOTABLE).fetch_one(&mut *line).await.map_err(failed(DOING))?;
        let rows = if any { line.execute(PROMOTE).await.map_err(failed(DOING))?.rows_affected() } else { 0 };
        line.done();
        Ok(rows)
    }

    async fn sent(&self, places: &[Place], keep: bool) -> Result<(), StoreError> {
        let mut line = self.marker.take().await?;
        let ids = json(&places.iter().map(|place| place.id).collect::<Vec<_>>());
        sent(&mut line, &ids, keep).await.map_err(failed("marking records sent"))?;
        line.done();
        Ok(())
    }

    async fn purge(&self, older: Duration) -> Result<u64, StoreError> {
        let mut line = self.marker.take().await?;
        let purge = sqlx::query(PURGE).bind(format!("-{:.3} seconds", older.as_secs_f64())).execute(&mut *line).await;
        let done = purge.map_err(failed("purging sent records"))?;
        line.done();
        Ok(done.rows_affected())
    }

    async fn failed(&self, relay: &str, failures: &[Failure]) -> Result<(), StoreError> {
        let mut line = self.reader.take().await?;
        let rows: Vec<_> = failures.iter().map(|f| (f.place.id, &f.error, f.again.map(seconds))).collect();
        let update = sqlx::query(FAILED).bind(relay).bind(json(&rows)).execute(&mut *line).await;
        update.map_err(failed("recording failed records"))?;
        line.done();
        Ok(())
    }

    async fn hold(&self, shards: &[Shard]) -> Result<u64, StoreError> {
        const DOING: &str = "holding what lies behind records that were set aside";
        let mut line = self.marker.take().await?;
        let moved = hold(&mut line, &json(&shards)).await.map_err(failed(DOING))?;
        line.done();
        Ok(moved)
    }

    async fn keep(&self, relay: &str, asleep: bool, share: Share) -> Result<Kept, StoreError> {
        const DOING: &str = "renewing the relay's lease";
        let mut line = self.keeper.take().await?;
        let kept = keep(&mut line, relay, asleep, share).await.map_err(failed(DOING))?;
        line.done();
        Ok(kept)
    }

    async fn release(&self, relay: &str, shards: &[Shard]) -> Result<(), StoreError> {
        let mut line = self.keeper.take().await?;
        let release = sqlx::query(RELEASE).bind(relay).bind(json(&shards)).execute(&mut *line).await;
        release.map_err(failed("giving shards back"))?;
        line.done();
        Ok(())
    }

    async fn leave(&self, relay: &str) -> Result<(), StoreError> {
        const DOING: &str = "giving the relay's shards back";
        let mut line = self.keeper.take().await?;
        leave(&mut line, relay).await.map_err(failed(DOING))?;
        line.done();
        Ok(())
    }

    async fn oldest(&self, shards: &[Shard]) -> Result<Option<Duration>, StoreError> {
        let mut line = self.reader.take().await?;
        let age = sqlx::query_scalar(OLDEST).bind(json(&shards)).fetch_one(&mut *line).await;
        let age: Option<f64> = age.map_err(failed("looking at the backlog"))?;
        line.done();
        Ok(age.map(|age| Duration::try_from_secs_f64(age).unwrap_or_default()))
    }

    // The bell of a worker in the same process is all there is.
    async fn woken(&self) -> Result<(), StoreError> {
        std::future::pending().await
    }
}

/// IMMEDIATE, as everywhere here: see the workers' sessions.
const BEGIN: &str = "BEGIN IMMEDIATE";

async fn sent(conn: &mut SqliteConnection, ids: &str, keep: bool) -> Result<(), Error> {
    let mut tx = conn.begin_with(BEGIN).await?;
    if keep {
        sqlx::query(TO_SENT).bind(ids).execute(&mut *tx).await?;
    }
    sqlx::query(GONE).bind(ids).execute(&mut *tx).await?;
    tx.commit().await
}

async fn hold(conn: &mut SqliteConnection, shards: &str) -> Result<u64, Error> {
    let (failed, held): (bool, bool) = sqlx::query_as(ANY_FAILED).fetch_one(&mut *conn).await?;
    let mut moved = 0;
    for (sql, any) in [(LET_GO, held), (HOLD, failed)] {
        if any {
            moved += sqlx::query(sql).bind(shards).execute(&mut *conn).await?.rows_affected();
        }
    }
    Ok(moved)
}

async fn keep(conn: &mut SqliteConnection, relay: &str, asleep: bool, share: Share) -> Result<Kept, Error> {
    let lease = seconds(LEASE);
    let mut tx = conn.begin_with(BEGIN).await?;
    sqlx::query(ALIVE).bind(relay).bind(asleep).bind(&lease).execute(&mut *tx).await?;
    tx.execute(BURY).await?;
    let live: i64 = sqlx::query_scalar(LIVE).fetch_one(&mut *tx).await?;
    let live = usize::try_from(live).unwrap_or(1).max(1);
    let renewed: Vec<Shard> = sqlx::query_scalar(RENEW).bind(relay).bind(&lease).fetch_all(&mut *tx).await?;
    let mut taken = Vec::new();
    let lacking = share(live).saturating_sub(renewed.len());
    if lacking > 0 {
        let lacking = i64::try_from(lacking).unwrap_or(i64::MAX);
        taken = sqlx::query_scalar(TAKE).bind(relay).bind(&lease).bind(lacking).fetch_all(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(Kept { live, renewed, taken })
}

async fn leave(conn: &mut SqliteConnection, relay: &str) -> Result<(), Error> {
    let mut tx = conn.begin_with(BEGIN).await?;
    sqlx::query("UPDATE main.idempotent_jobs_shards SET owner = NULL, owned_until = NULL WHERE owner = $1")
        .bind(relay)
        .execute(&mut *tx)
        .await?;
    sqlx::query("DELETE FROM main.idempotent_jobs_relays WHERE id = $1").bind(relay).execute(&mut *tx).await?;
    tx.commit().await
}

/// As the modifier of a date.
fn seconds(duration: Duration) -> String {
    format!("+{:.3} seconds", duration.as_secs_f64())
}

fn json(values: &impl serde::Serialize) -> String {
    serde_json::to_string(values).expect("numbers and texts can be written")
}

fn row(row: &SqliteRow) -> Result<Row, Error> {
    let headers: Vec<(String, Option<String>)> =
        serde_json::from_str(row.try_get(8)?).map_err(|error| Error::Decode(Box::new(error)))?;
    Ok(Row {
        place: Place { shard: row.try_get(0)?, id: row.try_get(1)? },
        topic: row.try_get(2)?,
        key: row.try_get(3)?,
        key_parts: row.try_get(4)?,
        event: row.try_get(5)?,
        partition_key: row.try_get(6)?,
        payload: row.try_get(7)?,
        headers: headers
            .into_iter()
            .map(|(name, value)| Ok((name, value.map(|hex| unhex(&hex)).transpose()?)))
            .collect::<Result<_, Error>>()?,
        ordered: row.try_get(9)?,
        size: usize::try_from(row.try_get::<i64, _>(10)?).unwrap_or(0),
        attempts: u32::try_from(row.try_get::<i64, _>(11)?).unwrap_or(0),
    })
}

fn unhex(hex: &str) -> Result<Vec<u8>, Error> {
    let bad = || Error::Decode("a header's value is not in hex".into());
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(bad);
    hex.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Ok(digit(*high)? << 4 | digit(*low)?),
            _ => Err(bad()),
        })
        .collect()
}
