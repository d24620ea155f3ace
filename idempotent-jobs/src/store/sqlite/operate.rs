//! An operator's part of SQLite.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Error, Row as _, Sqlite};

use crate::store::line::Line;
use crate::store::operate::{Operate, SetAside};
use crate::store::{Access, Dialect as _, StoreError};

/// One connection for what operators do.
pub struct SqliteOperate(Line<Sqlite>);

impl SqliteOperate {
    /// Opens the file and brings our tables up to date.
    ///
    /// # Errors
    /// Says why the database cannot be used.
    pub async fn open(url: &str, access: Access) -> Result<Self, StoreError> {
        Ok(Self(Line::new(Sqlite::open_for(url, access).await?, "")))
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::driver::<Sqlite>(doing, error)
}

const SET_ASIDE: &str = "\
SELECT topic, coalesce(long_key, key), partition_key, event, attempts, coalesce(last_error, ''), \
    (julianday('now') - julianday(enqueued_at)) * 86400.0, size \
FROM main.idempotent_jobs_outbox WHERE state = 'failed' ORDER BY id LIMIT $1";

/// Those that are counted before they are changed.
macro_rules! those {
    () => {
        "WHERE state = 'failed' AND topic = $1 AND ($2 IS NULL OR key = $2)"
    };
}

const COUNT: &str = concat!("SELECT count(*) FROM main.idempotent_jobs_outbox ", those!());

const REDRIVE: &str =
    concat!("UPDATE main.idempotent_jobs_outbox SET state = 'ready', attempts = 0, last_error = NULL ", those!());

const DISCARD: &str = concat!("DELETE FROM main.idempotent_jobs_outbox ", those!());

/// A new id: what was enqueued since is older. It keeps its first time, by which keys are kept for it (`retention`); how long
/// the outbox has held it counts from now. Of several that were sent under one key, the last.
const REPLAY: &str = "\
INSERT INTO main.idempotent_jobs_outbox (topic, key, long_key, key_parts, event, partition_key, payload, \
    headers, shard, ordered, size, first_at) \
SELECT topic, key, long_key, key_parts, event, partition_key, payload, headers, shard, ordered, size, first_at \
FROM main.idempotent_jobs_sent WHERE topic = $1 AND key = $2 ORDER BY id DESC LIMIT 1 \
ON CONFLICT (topic, key) DO NOTHING";

const REPLAYED: &str = "DELETE FROM main.idempotent_jobs_sent WHERE topic = $1 AND key = $2";

#[async_trait]
impl Operate for SqliteOperate {
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

impl SqliteOperate {
    async fn run(&self, sql: &'static str, topic: &str, key: Option<&str>) -> Result<Result<u64, StoreError>, Error> {
        let mut line = match self.0.take().await {
            Ok(line) => line,
            Err(error) => return Ok(Err(error)),
        };
        let mut tx = line.begin_with("BEGIN IMMEDIATE").await?;
        let done = sqlx::query(sql).bind(topic).bind(key).execute(&mut *tx).await?;
        if sql == REPLAY {
            sqlx::query(REPLAYED).bind(topic).bind(key).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        line.done();
        Ok(Ok(done.rows_affected()))
    }
}

fn row(row: &SqliteRow) -> Result<SetAside, Error> {
    Ok(SetAside {
        topic: row.try_get(0)?,
        key: row.try_get(1)?,
        partition_key: row.try_get(2)?,
        event: row.try_get(3)?,
        attempts: u32::try_from(row.try_get::<i64, _>(4)?).unwrap_or(0),
        error: row.try_get(5)?,
        age: Duration::try_from_secs_f64(row.try_get(6)?).unwrap_or_default(),
        size: usize::try_from(row.try_get::<i64, _>(7)?).unwrap_or(0),
    })
}
