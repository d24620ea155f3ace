//! The purge's part of PostgreSQL.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sqlx::{Connection, Error, PgConnection, Postgres};

use crate::store::letters::instant;
use crate::store::line::Line;
use crate::store::retention::{Begun, Place, Purge, Purged, RetentionStore, Step, Walk, millis};
use crate::store::slots::{ANSWER, within};
use crate::store::{Dialect as _, StoreError};

/// A part of the table is read by its place, whatever the statistics say (`enable_seqscan`). A job that holds a row is
/// waited for no longer than a purge may hold up others.
const SETTINGS: &str = "SET plan_cache_mode = force_custom_plan; SET enable_seqscan = off; SET jit = off; \
     SET lock_timeout = 500; SET statement_timeout = 15000; SET idle_in_transaction_session_timeout = 15000; \
     SET default_transaction_read_only = off; SET synchronous_commit = off";

/// Pages of a step: some thousand rows.
const PAGES: i64 = 20;

/// The cleaner's connection, apart from those of workers.
pub struct PostgresRetention(Line<Postgres>);

impl PostgresRetention {
    /// Checks the server and the role, and brings our tables up to date.
    ///
    /// # Errors
    /// Says why the database cannot be used.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        const DOING: &str = "checking the rights to purge";
        let line: Line<Postgres> = Line::new(Postgres::open(url).await?, SETTINGS);
        let mut lent = line.take().await?;
        let conn: &mut PgConnection = &mut lent;
        let asking = async { sqlx::query_scalar::<_, bool>(MAY).fetch_one(conn).await.map_err(failed(DOING)) };
        let may = within(ANSWER, DOING, asking).await?;
        lent.done();
        if may {
            return Ok(Self(line));
        }
        Err(StoreError::lasting(
            DOING,
            "the role may not delete old keys: GRANT DELETE ON idempotent_jobs.processed TO role, or keep keys forever",
        ))
    }

    /// Runs an errand; its connection is kept when it succeeds.
    async fn run<T>(
        &self,
        doing: &'static str,
        errand: impl AsyncFnOnce(&mut PgConnection) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let mut line = self.0.take().await?;
        let done = within(ANSWER, doing, async { errand(&mut line).await.map_err(failed(doing)) }).await?;
        line.done();
        Ok(done)
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::driver::<Postgres>(doing, error)
}

const MAY: &str = "SELECT has_table_privilege('idempotent_jobs.processed', 'DELETE')";

const NOW: &str = "SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint";

/// Both have an index that finds a topic, or the oldest.
const UNSENT: &str = "\
SELECT topic, min(at)::bigint FROM ( \
    SELECT topic, floor(extract(epoch FROM min(coalesce(first_at, enqueued_at))) * 1000) AS at FROM idempotent_jobs.outbox \
    WHERE topic = ANY ($1) GROUP BY topic \
    UNION ALL \
    SELECT topic, floor(extract(epoch FROM min(first_at)) * 1000) FROM idempotent_jobs.sent \
    WHERE topic = ANY ($1) GROUP BY topic) AS s GROUP BY topic";

/// The timestamp is the sender's word: it is believed as far as it can be true.
const UNKEYED: &str = "\
SELECT topic, min(least(died, greatest(coalesce(\"timestamp\", 0), died - $3)))::bigint FROM ( \
    SELECT topic, \"timestamp\", floor(extract(epoch FROM died_at) * 1000)::bigint AS died \
    FROM idempotent_jobs.dead_letters WHERE key IS NULL AND state NOT IN ('redriven', 'skipped') \
    AND \"group\" = $1 AND topic = ANY ($2)) AS l GROUP BY topic";

const WATERMARKS: &str = "\
SELECT topic, partition, \"offset\" FROM idempotent_jobs.watermarks WHERE \"group\" = $1 AND topic = ANY ($2)";
/// The row of an owner is there before its first message is given to a job. What is queued before has none.
const IN_HAND: &str = "\
SELECT topic, partition FROM idempotent_jobs.owners WHERE \"group\" = $1 AND topic = ANY ($2) \
UNION SELECT topic, partition FROM idempotent_jobs.attempts WHERE \"group\" = $1 AND topic = ANY ($2)";

/// Two halves of an advisory lock's number: "idem", and 2 for purging. The session holds it for a whole sweep, each step
/// again in its transaction: a session that lost it does nothing.
const LOCK: &str = "SELECT pg_catalog.pg_try_advisory_lock(1768187245, 2)";
const LOCK_STEP: &str = "SELECT pg_catalog.pg_try_advisory_xact_lock(1768187245, 2)";
const UNLOCK: &str = "SELECT pg_catalog.pg_advisory_unlock_all()";

const RESTED: &str = "\
SELECT EXISTS (SELECT FROM idempotent_jobs.sweeps WHERE \"group\" = $1 \
    AND swept_at > pg_catalog.now() - make_interval(secs => $2) AND swept_at <= pg_catalog.now())";

const EXTENT: &str = "\
SELECT (pg_relation_size('idempotent_jobs.processed') / current_setting('block_size')::bigint)::bigint";

const SWEPT: &str = "\
INSERT INTO idempotent_jobs.sweeps (\"group\", swept_at) VALUES ($1, pg_catalog.now()) \
ON CONFLICT (\"group\") DO UPDATE SET swept_at = excluded.swept_at";

/// A letter that was skipped can be redriven all the same. OFFSET keeps the look at letters one into their index for each
/// row that would go: as a join it could be a walk over all of them.
const DELETE: &str = "\
WITH bounds AS MATERIALIZED ( \
    SELECT topic, partition, below, 'epoch'::timestamptz + before * interval '1 millisecond' AS before \
    FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[]) AS b (topic, partition, below, before)), \
gone AS (DELETE FROM idempotent_jobs.processed AS p USING bounds AS b \
    WHERE p.ctid >= $5::text::tid AND p.ctid < $6::text::tid \
    AND p.\"group\" = $7 AND p.topic = b.topic AND p.partition = b.partition \
    AND p.\"offset\" < b.below AND p.processed_at < b.before \
    AND EXISTS (SELECT FROM idempotent_jobs.watermarks AS w WHERE w.\"group\" = p.\"group\" AND w.topic = p.topic \
        AND w.partition = p.partition AND p.\"offset\" < w.\"offset\") \
    AND p.job NOT IN (SELECT name FROM idempotent_jobs.jobs WHERE shared) \
    AND NOT EXISTS (SELECT FROM idempotent_jobs.dead_letters AS l \
        WHERE l.job = p.job AND l.key = p.key AND l.state <> 'redriven' OFFSET 0) \
    RETURNING p.topic, p.partition, p.\"offset\") \
SELECT topic, partition, count(*), max(\"offset\") + 1 FROM gone GROUP BY topic, partition ORDER BY topic, partition";

const OLDEST: &str = "\
SELECT floor(extract(epoch FROM min(processed_at)) * 1000)::bigint FROM idempotent_jobs.processed \
WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND \"group\" = $3";

/// In the order of all who write several: they wait for each other in one direction.
const RAISE: &str = "\
WITH held AS MATERIALIZED (SELECT w.topic, w.partition, g.next FROM idempotent_jobs.watermarks AS w \
    JOIN unnest($2::text[], $3::integer[], $4::bigint[]) AS g (topic, partition, next) \
    ON g.topic = w.topic AND g.partition = w.partition WHERE w.\"group\" = $1 \
    ORDER BY w.topic, w.partition FOR UPDATE OF w) \
UPDATE idempotent_jobs.watermarks AS w SET purged_to = greatest(w.purged_to, held.next) FROM held \
WHERE w.\"group\" = $1 AND w.topic = held.topic AND w.partition = held.partition";

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

#[async_trait]
impl RetentionStore for PostgresRetention {
    async fn now(&self) -> Result<SystemTime, StoreError> {
        let now = async |conn: &mut PgConnection| sqlx::query_scalar(NOW).fetch_one(conn).await;
        self.run("reading the database's clock", now).await.map(instant)
    }

    async fn unsent(&self, topics: &[String]) -> Result<BTreeMap<String, SystemTime>, StoreError> {
        let asking = async |conn: &mut PgConnection| sqlx::query_as(UNSENT).bind(topics).fetch_all(conn).await;
        Ok(times(self.run("looking for unsent records", asking).await?))
    }

    async fn unkeyed(
        &self,
        group: &str,
        topics: &[String],
        life: Duration,
    ) -> Result<BTreeMap<String, SystemTime>, StoreError> {
        let life = i64::try_from(life.as_millis()).unwrap_or(i64::MAX / 2);
        let asking = async |conn: &mut PgConnection| {
            sqlx::query_as(UNKEYED).bind(group).bind(topics).bind(life).fetch_all(conn).await
        };
        Ok(times(self.run("looking for dead letters without a key", asking).await?))
    }

    async fn watermarks(&self, group: &str, topics: &[String]) -> Result<BTreeMap<(String, i32), i64>, StoreError> {
        let asking = async |conn: &mut PgConnection| {
            sqlx::query_as::<_, (String, i32, i64)>(WATERMARKS).bind(group).bind(topics).fetch_all(conn).await
        };
        let rows = self.run("reading watermarks", asking).await?;
        Ok(rows.into_iter().map(|(topic, partition, offset)| ((topic, partition), offset)).collect())
    }

    async fn in_hand(&self, group: &str, topics: &[String]) -> Result<BTreeSet<(String, i32)>, StoreError> {
        let asking = async |conn: &mut PgConnection| {
            sqlx::query_as::<_, (String, i32)>(IN_HAND).bind(group).bind(topics).fetch_all(conn).await
        };
        Ok(self.run("looking for messages in hand", asking).await?.into_iter().collect())
    }

    async fn begin(&self, group: &str, rest: Duration) -> Result<Begun, StoreError> {
        let begin = async |conn: &mut PgConnection| {
            if !sqlx::query_scalar(LOCK).fetch_one(&mut *conn).await? {
                return Ok(Begun::Busy);
            }
            if sqlx::query_scalar(RESTED).bind(group).bind(rest.as_secs_f64()).fetch_one(&mut *conn).await? {
                sqlx::query(UNLOCK).execute(conn).await?;
                return Ok(Begun::Rested);
            }
            let pages = sqlx::query_scalar(EXTENT).fetch_one(conn).await?;
            Ok(Begun::Walk(Walk { at: Place::Page(0, pages) }))
        };
        self.run("beginning to purge", begin).await
    }

    async fn step(&self, walk: &mut Walk, purge: &Purge) -> Result<Option<Step>, StoreError> {
        let Place::Page(from, end) = walk.at else { return Ok(None) };
        let to = end.min(from.saturating_add(PAGES));
        let pages = [format!("({from},0)"), format!("({to},0)")];
        let done = self.run(PURGING, async |conn: &mut PgConnection| step(conn, &pages, purge).await).await;
        let done = match done {
            Ok(None) => return Ok(None),
            Ok(Some(done)) => done,
            // By a job or a person: those rows are for the next sweep.
            Err(error) if is_held(&error) => Step::default(),
            Err(error) => return Err(error),
        };
        walk.at = Place::Page(to, end);
        Ok(Some(Step { last: to >= end, ..done }))
    }

    async fn end(&self, group: &str) -> Result<(), StoreError> {
        let end = async |conn: &mut PgConnection| {
            sqlx::query(SWEPT).bind(group).execute(&mut *conn).await?;
            sqlx::query(UNLOCK).execute(conn).await.map(drop)
        };
        self.run("ending a purge", end).await
    }
}

const PURGING: &str = "purging old keys";

async fn step(conn: &mut PgConnection, pages: &[String; 2], purge: &Purge) -> Result<Option<Step>, Error> {
    let mut tx = conn.begin_with(BEGIN).await?;
    if !sqlx::query_scalar(LOCK_STEP).fetch_one(&mut *tx).await? {
        tx.rollback().await?;
        return Ok(None);
    }
    let purged = delete(&mut tx, pages, purge).await?;
    if !purged.is_empty() {
        raise_purged_to(&mut tx, &purge.group, &purged).await?;
    }
    let [from, to] = pages;
    let oldest: Option<i64> =
        sqlx::query_scalar(OLDEST).bind(from).bind(to).bind(&purge.group).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    Ok(Some(Step { purged, oldest: oldest.map(instant), last: false }))
}

async fn delete(conn: &mut PgConnection, [from, to]: &[String; 2], purge: &Purge) -> Result<Vec<Purged>, Error> {
    let bounds = &purge.bounds;
    let rows: Vec<(String, i32, i64, i64)> = sqlx::query_as(DELETE)
        .bind(bounds.iter().map(|bound| &*bound.topic).collect::<Vec<_>>())
        .bind(bounds.iter().map(|bound| bound.partition).collect::<Vec<_>>())
        .bind(bounds.iter().map(|bound| bound.below).collect::<Vec<_>>())
        .bind(bounds.iter().map(|bound| millis(bound.before)).collect::<Vec<_>>())
        .bind(from)
        .bind(to)
        .bind(&purge.group)
        .fetch_all(conn)
        .await?;
    let purged =
        |(topic, partition, rows, next)| Purged { topic, partition, rows: u64::try_from(rows).unwrap_or(0), next };
    Ok(rows.into_iter().map(purged).collect())
}

/// Whoever reads a partition from below that offset again would find its keys gone.
async fn raise_purged_to(conn: &mut PgConnection, group: &str, purged: &[Purged]) -> Result<(), Error> {
    sqlx::query(RAISE)
        .bind(group)
        .bind(purged.iter().map(|gone| &*gone.topic).collect::<Vec<_>>())
        .bind(purged.iter().map(|gone| gone.partition).collect::<Vec<_>>())
        .bind(purged.iter().map(|gone| gone.next).collect::<Vec<_>>())
        .execute(conn)
        .await
        .map(drop)
}

fn is_held(error: &StoreError) -> bool {
    let driver = error.source.downcast_ref::<Error>().and_then(Error::as_database_error);
    driver.is_some_and(|error| error.code().as_deref() == Some("55P03"))
}

fn times(rows: Vec<(String, i64)>) -> BTreeMap<String, SystemTime> {
    rows.into_iter().map(|(topic, at)| (topic, instant(at))).collect()
}
