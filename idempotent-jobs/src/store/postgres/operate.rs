//! An operator's part of PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, Error, Executor, Postgres, Row as _};

use crate::store::line::Line;
use crate::store::operate::{Operate, SetAside};
use crate::store::{Access, Dialect as _, StoreError};

/// One connection for what operators do.
pub struct PostgresOperate(Line<Postgres>);

impl PostgresOperate {
    /// Checks the server and our tables, which are brought up to date unless they are only read.
    ///
    /// # Errors
    /// Says why the database cannot be used.
    pub async fn open(url: &str, access: Access) -> Result<Self, StoreError> {
        let settings = "SET lock_timeout = 5000; SET default_transaction_read_only = off";
        Ok(Self(Line::new(Postgres::open_for(url, access).await?, settings)))
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::driver::<Postgres>(doing, error)
}

const SET_ASIDE: &str = "\
SELECT topic, coalesce(long_key, key), partition_key, event, attempts, coalesce(last_error, ''), \
    extract(epoch FROM pg_catalog.now() - enqueued_at)::float8, size \
FROM idempotent_jobs.outbox WHERE state = 'failed' ORDER BY id LIMIT $1";

/// Those that are counted before they are changed.
macro_rules! those {
    () => {
        "WHERE state = 'failed' AND topic = $1 AND ($2::text IS NULL OR key = $2)"
    };
}

const COUNT: &str = concat!("SELECT count(*) FROM idempotent_jobs.outbox ", those!());

const REDRIVE: &str =
    concat!("UPDATE idempotent_jobs.outbox SET state = 'ready', attempts = 0, last_error = NULL ", those!());

const DISCARD: &str = concat!("DELETE FROM idempotent_jobs.outbox ", those!());

/// The locks of enqueueing: the digest of topic, NUL and Kafka message key gives the stripe.
const LOCK: &str = "\
SELECT count(pg_catalog.pg_advisory_xact_lock(1768187246, stripe)) FROM ( \
    SELECT DISTINCT get_byte(sha256(convert_to(topic, 'UTF8') || '\\x00'::bytea || convert_to(partition_key, 'UTF8')), 0) \
    FROM idempotent_jobs.sent WHERE topic = $1 AND key = $2 AND ordered AND partition_key IS NOT NULL \
    ORDER BY 1) AS s (stripe)";

/// A new id: what was enqueued since is older. It keeps its first time, by which keys are kept for it (`retention`); how long
/// the outbox has held it counts from now.
const REPLAY: &str = "\
WITH back AS (DELETE FROM idempotent_jobs.sent WHERE topic = $1 AND key = $2 RETURNING *), \
last AS (SELECT DISTINCT ON (topic, key) * FROM back ORDER BY topic, key, id DESC) \
INSERT INTO idempotent_jobs.outbox (topic, key, long_key, key_parts, event, partition_key, payload, \
    header_names, header_values, shard, ordered, size, first_at) \
SELECT topic, key, long_key, key_parts, event, partition_key, payload, header_names, header_values, shard, ordered, size, \
    first_at \
FROM last ON CONFLICT (topic, key) DO NOTHING";

/// As enqueueing does.
const CALL: &str = "\
SELECT pg_catalog.pg_notify('idempotent_jobs_outbox', '') WHERE EXISTS (SELECT FROM idempotent_jobs.relays \
    WHERE asleep AND alive_until > pg_catalog.clock_timestamp())";

#[async_trait]
impl Operate for PostgresOperate {
    async fn set_aside(&self, limit: usize) -> Result<Vec<SetAside>, StoreError> {
        const DOING: &str = "listing records that were set aside";
        let mut line = self.0.take().await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = sqlx::query(SET_ASIDE).bind(limit).fetch_all(&mut *line).await.map_err(failed(DOING))?;
        line.done();
        rows.iter().map(row).collect::<Result<_, _>>().map_err(failed(DOING))
    }

    async fn count(&self, topic: &str, key: Option<&str>) -> Result<u64, StoreError> {
        let mut line = self.0.take().await?;
        let asking = sqlx::query_scalar::<_, i64>(COUNT).bind(topic).bind(key).fetch_one(&mut *line).await;
        let count = asking.map_err(failed("counting records that were set aside"))?;
        line.done();
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn redrive(&self, topic: &str, key: Option<&str>) -> Result<u64, StoreError> {
        self.run(REDRIVE, topic, key).await.map_err(failed("redriving records"))?
    }

    async fn discard(&self, topic: &str, key: Option<&str>) -> Result<u64, StoreError> {
        self.run(DISCARD, topic, key).await.map_err(failed("discarding records"))?
    }

    async fn replay(&self, topic: &str, key: &str) -> Result<u64, StoreError> {
        self.run(REPLAY, topic, Some(key)).await.map_err(failed("replaying sent records"))?
    }
}

impl PostgresOperate {
    async fn run(&self, sql: &'static str, topic: &str, key: Option<&str>) -> Result<Result<u64, StoreError>, Error> {
        let mut line = match self.0.take().await {
            Ok(line) => line,
            Err(error) => return Ok(Err(error)),
        };
        let mut tx = line.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        if sql == REPLAY {
            sqlx::query(LOCK).bind(topic).bind(key).execute(&mut *tx).await?;
        }
        let done = sqlx::query(sql).bind(topic).bind(key).execute(&mut *tx).await?;
        tx.execute(CALL).await?;
        tx.commit().await?;
        line.done();
        Ok(Ok(done.rows_affected()))
    }
}

fn row(row: &PgRow) -> Result<SetAside, Error> {
    Ok(SetAside {
        topic: row.try_get(0)?,
        key: row.try_get(1)?,
        partition_key: row.try_get(2)?,
        event: row.try_get(3)?,
        attempts: u32::try_from(row.try_get::<i32, _>(4)?).unwrap_or(0),
        error: row.try_get(5)?,
        age: Duration::try_from_secs_f64(row.try_get(6)?).unwrap_or_default(),
        size: usize::try_from(row.try_get::<i32, _>(7)?).unwrap_or(0),
    })
}
