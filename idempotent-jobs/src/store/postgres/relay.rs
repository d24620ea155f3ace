//! The relay's part of PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::{ConnectOptions, Connection, Error, Executor, PgConnection, Postgres, Row as _};
use tokio::sync::Mutex;

use crate::store::line::Line;
use crate::store::relay::{CHANNEL, Failure, Kept, LEASE, Place, RelayStore, Row, Shard, Share, Wanted};
use crate::store::{Dialect as _, StoreError};

/// A table that fills to millions and empties again has statistics of some other hour, and a plan
/// that reads all of it would be chosen by them one day. Every statement here has its index. The
/// first rows of a shard are to be read in the index's order, and never all of them to be sorted
/// (`enable_bitmapscan`). The price put on walking through a table would have the rest compiled (`jit`).
const INDEXES: &str = "SET plan_cache_mode = force_custom_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off; SET lock_timeout = 5000; SET statement_timeout = 15000; \
     SET idle_in_transaction_session_timeout = 15000; SET default_transaction_read_only = off";

/// What a crash of the server takes back of these is told again: a record is sent twice, with one key.
const FORGETTING: &str = "SET plan_cache_mode = force_custom_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off; SET lock_timeout = 5000; SET statement_timeout = 15000; \
     SET idle_in_transaction_session_timeout = 15000; SET default_transaction_read_only = off; \
     SET synchronous_commit = off";

/// The relay's connections, apart from those of workers.
pub struct PostgresRelay {
    options: PgConnectOptions,
    reader: Line<Postgres>,
    marker: Line<Postgres>,
    keeper: Line<Postgres>,
    listener: Mutex<Option<PgListener>>,
}

impl PostgresRelay {
    /// Checks the server and brings our tables up to date.
    ///
    /// # Errors
    /// Says why the database cannot be used.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let options = Postgres::open(url).await?.disable_statement_logging();
        let line = |settings| Line::new(options.clone(), settings);
        let (reader, marker, keeper) = (line(FORGETTING), line(FORGETTING), line(INDEXES));
        Ok(Self { options, reader, marker, keeper, listener: Mutex::default() })
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::driver::<Postgres>(doing, error)
}

/// Whether `o` lies behind a record of its partition key that is in such a state. OFFSET keeps it a
/// look into the index for each row: a set of all troubled records, however it is made, would be
/// made for every read.
macro_rules! behind {
    ($state:literal) => {
        concat!(
            "(o.ordered AND EXISTS (SELECT FROM idempotent_jobs.outbox AS b WHERE b.shard = o.shard \
             AND pg_catalog.\"left\"(b.partition_key, 200) = pg_catalog.\"left\"(o.partition_key, 200) \
             AND ",
            $state,
            " AND b.ordered AND b.topic = o.topic AND b.partition_key = o.partition_key AND b.id < o.id OFFSET 0))"
        )
    };
}

/// NOT IN with a subquery: it becomes a hash table, on any server from 14 on.
const DUE: &str = concat!(
    "WITH due AS ( \
    SELECT o.* FROM unnest($1) AS s (shard) CROSS JOIN LATERAL ( \
        SELECT * FROM (SELECT * FROM idempotent_jobs.outbox \
            WHERE shard = s.shard AND state = 'ready' ORDER BY id LIMIT $7) AS o \
        WHERE o.id NOT IN (SELECT unnest($2::bigint[])) \
        AND o.topic <> ALL ($3) \
        AND NOT ",
    behind!("b.state <> 'ready' AND (b.attempts > 0 OR b.state = 'held')"),
    " ORDER BY o.id LIMIT $4) AS o), \
summed AS (SELECT *, sum(size) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - size AS before FROM due) \
SELECT shard, id, topic, coalesce(long_key, key), key_parts, event, partition_key, payload, \
    header_names, header_values, ordered, size, attempts \
FROM summed WHERE before < $5 ORDER BY id LIMIT $6"
);

const ANY_FAILED: &str = "\
SELECT EXISTS (SELECT FROM idempotent_jobs.outbox WHERE shard = ANY ($1) AND state = 'failed'), \
    EXISTS (SELECT FROM idempotent_jobs.outbox WHERE shard = ANY ($1) AND state = 'held')";

/// Of each shard the first ready rows: those before them leave, and then these are the first.
const HOLD: &str = concat!(
    "UPDATE idempotent_jobs.outbox SET state = 'held' WHERE ctid = ANY (ARRAY( \
    SELECT o.ctid FROM unnest($1) AS s (shard) CROSS JOIN LATERAL ( \
        SELECT * FROM (SELECT ctid, * FROM idempotent_jobs.outbox \
            WHERE shard = s.shard AND state = 'ready' ORDER BY id LIMIT 5000) AS o WHERE ",
    behind!("b.state = 'failed'"),
    ") AS o LIMIT 1000)) AND state = 'ready'"
);

/// What they were behind is gone or goes again.
const LET_GO: &str = concat!(
    "UPDATE idempotent_jobs.outbox SET state = 'ready' WHERE ctid = ANY (ARRAY( \
    SELECT o.ctid FROM idempotent_jobs.outbox AS o WHERE o.shard = ANY ($1) AND o.state = 'held' AND NOT ",
    behind!("b.state = 'failed'"),
    " LIMIT 10000)) AND state = 'held'"
);

const PROMOTE: &str = "\
UPDATE idempotent_jobs.outbox SET state = 'ready', due_at = NULL WHERE ctid = ANY (ARRAY( \
    SELECT ctid FROM idempotent_jobs.outbox WHERE state = 'later' AND due_at <= pg_catalog.now() \
    ORDER BY due_at LIMIT 1000 FOR UPDATE SKIP LOCKED)) AND state = 'later'";

/// Places of rows, found one by one through the index: a LATERAL with a LIMIT cannot be turned
/// round into a walk over all ready rows, as a join can that is planned by old statistics.
macro_rules! places {
    () => {
        "ctid = ANY (ARRAY(SELECT o.at FROM unnest($1::smallint[], $2::bigint[]) AS d (shard, id) \
         CROSS JOIN LATERAL (SELECT ctid AS at FROM idempotent_jobs.outbox \
         WHERE shard = d.shard AND id = d.id AND state = 'ready' LIMIT 1) AS o))"
    };
}

const GONE: &str = concat!("DELETE FROM idempotent_jobs.outbox WHERE ", places!());

const TO_SENT: &str = concat!(
    "WITH gone AS (DELETE FROM idempotent_jobs.outbox WHERE ",
    places!(),
    " RETURNING *) \
     INSERT INTO idempotent_jobs.sent (id, topic, key, long_key, key_parts, event, partition_key, payload, \
     header_names, header_values, shard, ordered, size, first_at) \
     SELECT id, topic, key, long_key, key_parts, event, partition_key, payload, \
     header_names, header_values, shard, ordered, size, coalesce(first_at, enqueued_at) FROM gone ON CONFLICT (id) DO NOTHING"
);

const PURGE: &str = "\
DELETE FROM idempotent_jobs.sent WHERE ctid = ANY (ARRAY( \
    SELECT ctid FROM idempotent_jobs.sent WHERE sent_at < pg_catalog.now() - make_interval(secs => $1) \
    ORDER BY sent_at LIMIT 1000 FOR UPDATE SKIP LOCKED))";

/// Fenced by the owner: a relay that was asleep knows nothing of what became of the row since.
const FAILED: &str = "\
UPDATE idempotent_jobs.outbox AS o SET attempts = o.attempts + 1, last_error = $4, \
    state = CASE WHEN $5::float8 IS NULL THEN 'failed' ELSE 'later' END, \
    due_at = pg_catalog.now() + make_interval(secs => $5) \
WHERE o.shard = $2 AND o.id = $3 AND o.state = 'ready' \
AND EXISTS (SELECT FROM idempotent_jobs.shards AS s WHERE s.shard = $2 AND s.owner = $1)";

const ALIVE: &str = "\
INSERT INTO idempotent_jobs.relays AS r (id, asleep, alive_until) \
VALUES ($1, $2, pg_catalog.now() + make_interval(secs => $3)) \
ON CONFLICT (id) DO UPDATE SET asleep = excluded.asleep, alive_until = excluded.alive_until";

/// A dead one that was asleep would have every enqueueing notify it.
const BURY: &str = "\
DELETE FROM idempotent_jobs.relays WHERE id IN (SELECT id FROM idempotent_jobs.relays \
    WHERE alive_until < pg_catalog.now() FOR UPDATE SKIP LOCKED)";

const LIVE: &str = "SELECT count(*) FROM idempotent_jobs.relays WHERE alive_until >= pg_catalog.now()";

/// Also when the lease is over: as long as the owner's name stands, nobody else had the shard.
const RENEW: &str = "\
UPDATE idempotent_jobs.shards SET owned_until = pg_catalog.now() + make_interval(secs => $2) \
WHERE owner = $1 RETURNING shard";

const TAKE: &str = "\
UPDATE idempotent_jobs.shards SET owner = $1, owned_until = pg_catalog.now() + make_interval(secs => $2) \
WHERE shard IN (SELECT shard FROM idempotent_jobs.shards \
    WHERE owner IS NULL OR owned_until < pg_catalog.now() ORDER BY shard LIMIT $3 FOR UPDATE SKIP LOCKED) \
RETURNING shard";

const RELEASE: &str = "\
UPDATE idempotent_jobs.shards SET owner = NULL, owned_until = NULL WHERE owner = $1 AND shard = ANY ($2)";

const OLDEST: &str = "\
SELECT extract(epoch FROM pg_catalog.now() - min(o.enqueued_at))::float8 FROM unnest($1) AS s (shard) \
CROSS JOIN LATERAL (SELECT enqueued_at FROM idempotent_jobs.outbox \
    WHERE shard = s.shard AND state = 'ready' ORDER BY id LIMIT 1) AS o";

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

#[async_trait]
impl RelayStore for PostgresRelay {
    async fn due(&self, wanted: &Wanted) -> Result<Vec<Row>, StoreError> {
        const DOING: &str = "reading the outbox";
        let mut line = self.reader.take().await?;
        let rows = sqlx::query(DUE)
            .bind(&wanted.shards)
            .bind(&wanted.except)
            .bind(&wanted.except_topics)
            .bind(wanted.per_shard())
            .bind(i64::try_from(wanted.bytes.max(1)).unwrap_or(i64::MAX))
            .bind(i64::try_from(wanted.rows).unwrap_or(i64::MAX))
            .bind(wanted.longest_walk())
            .fetch_all(&mut *line)
            .await
            .map_err(failed(DOING))?;
        line.done();
        rows.iter().map(row).collect::<Result<_, _>>().map_err(failed(DOING))
    }

    async fn promote(&self) -> Result<u64, StoreError> {
        let mut line = self.reader.take().await?;
        let done = line.execute(PROMOTE).await.map_err(failed("making delayed records ready"))?;
        line.done();
        Ok(done.rows_affected())
    }

    async fn sent(&self, places: &[Place], keep: bool) -> Result<(), StoreError> {
        let mut line = self.marker.take().await?;
        let (shards, ids): (Vec<_>, Vec<_>) = places.iter().map(|place| (place.shard, place.id)).unzip();
        let sql = if keep { TO_SENT } else { GONE };
        sqlx::query(sql).bind(shards).bind(ids).execute(&mut *line).await.map_err(failed("marking records sent"))?;
        line.done();
        Ok(())
    }

    async fn purge(&self, older: Duration) -> Result<u64, StoreError> {
        let mut line = self.marker.take().await?;
        let purge = sqlx::query(PURGE).bind(older.as_secs_f64()).execute(&mut *line).await;
        let done = purge.map_err(failed("purging sent records"))?;
        line.done();
        Ok(done.rows_affected())
    }

    async fn failed(&self, relay: &str, failures: &[Failure]) -> Result<(), StoreError> {
        let mut line = self.reader.take().await?;
        record(&mut line, relay, failures).await.map_err(failed("recording failed records"))?;
        line.done();
        Ok(())
    }

    async fn hold(&self, shards: &[Shard]) -> Result<u64, StoreError> {
        const DOING: &str = "holding what lies behind records that were set aside";
        let mut line = self.marker.take().await?;
        let moved = hold(&mut line, shards).await.map_err(failed(DOING))?;
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
        let release = sqlx::query(RELEASE).bind(relay).bind(shards).execute(&mut *line).await;
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
        let age: Option<f64> = sqlx::query_scalar(OLDEST)
            .bind(shards)
            .fetch_one(&mut *line)
            .await
            .map_err(failed("looking at the backlog"))?;
        line.done();
        Ok(age.map(|age| Duration::try_from_secs_f64(age).unwrap_or_default()))
    }

    async fn woken(&self) -> Result<(), StoreError> {
        let mut place = self.listener.lock().await;
        let mut listener = match place.take() {
            Some(listener) => listener,
            None => listen(&self.options).await.map_err(failed("listening for records"))?,
        };
        // `None`: the connection was lost, and with it perhaps a word. To look is right then too.
        listener.try_recv().await.map_err(failed("listening for records"))?;
        *place = Some(listener);
        Ok(())
    }
}

async fn listen(options: &PgConnectOptions) -> Result<PgListener, Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// One by one: they are few, and each finds its row by the index.
async fn record(conn: &mut PgConnection, relay: &str, failures: &[Failure]) -> Result<(), Error> {
    let mut tx = conn.begin_with(BEGIN).await?;
    for Failure { place, error, again } in failures {
        sqlx::query(FAILED)
            .bind(relay)
            .bind(place.shard)
            .bind(place.id)
            // PostgreSQL refuses NUL in texts.
            .bind(error.replace('\0', " "))
            .bind(again.map(|wait| wait.as_secs_f64()))
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await
}

async fn hold(conn: &mut PgConnection, shards: &[Shard]) -> Result<u64, Error> {
    let (failed, held): (bool, bool) = sqlx::query_as(ANY_FAILED).bind(shards).fetch_one(&mut *conn).await?;
    let mut moved = 0;
    for (sql, any) in [(LET_GO, held), (HOLD, failed)] {
        if any {
            moved += sqlx::query(sql).bind(shards).execute(&mut *conn).await?.rows_affected();
        }
    }
    Ok(moved)
}

async fn keep(conn: &mut PgConnection, relay: &str, asleep: bool, share: Share) -> Result<Kept, Error> {
    let lease = LEASE.as_secs_f64();
    let mut tx = conn.begin_with(BEGIN).await?;
    sqlx::query(ALIVE).bind(relay).bind(asleep).bind(lease).execute(&mut *tx).await?;
    tx.execute(BURY).await?;
    let live: i64 = sqlx::query_scalar(LIVE).fetch_one(&mut *tx).await?;
    let live = usize::try_from(live).unwrap_or(1).max(1);
    let renewed: Vec<Shard> = sqlx::query_scalar(RENEW).bind(relay).bind(lease).fetch_all(&mut *tx).await?;
    let mut taken = Vec::new();
    let lacking = share(live).saturating_sub(renewed.len());
    if lacking > 0 {
        let lacking = i64::try_from(lacking).unwrap_or(i64::MAX);
        taken = sqlx::query_scalar(TAKE).bind(relay).bind(lease).bind(lacking).fetch_all(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(Kept { live, renewed, taken })
}

async fn leave(conn: &mut PgConnection, relay: &str) -> Result<(), Error> {
    let mut tx = conn.begin_with(BEGIN).await?;
    sqlx::query("UPDATE idempotent_jobs.shards SET owner = NULL, owned_until = NULL WHERE owner = $1")
        .bind(relay)
        .execute(&mut *tx)
        .await?;
    sqlx::query("DELETE FROM idempotent_jobs.relays WHERE id = $1").bind(relay).execute(&mut *tx).await?;
    tx.commit().await
}

fn row(row: &PgRow) -> Result<Row, Error> {
    let names: Vec<String> = row.try_get(8)?;
    let values: Vec<Option<Vec<u8>>> = row.try_get(9)?;
    Ok(Row {
        place: Place { shard: row.try_get(0)?, id: row.try_get(1)? },
        topic: row.try_get(2)?,
        key: row.try_get(3)?,
        key_parts: row.try_get(4)?,
        event: row.try_get(5)?,
        partition_key: row.try_get(6)?,
        payload: row.try_get(7)?,
        headers: names.into_iter().zip(values).collect(),
        ordered: row.try_get(10)?,
        size: usize::try_from(row.try_get::<i32, _>(11)?).unwrap_or(0),
        attempts: u32::try_from(row.try_get::<i32, _>(12)?).unwrap_or(0),
    })
}
