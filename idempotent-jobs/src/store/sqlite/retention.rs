//! The purge's part of SQLite.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sqlx::{Connection, Error, Sqlite, SqliteConnection};

use crate::store::letters::instant;
use crate::store::line::Line;
use crate::store::retention::{Begun, Place, Purge, Purged, RetentionStore, Step, Walk, added, millis};
use crate::store::slots::{ANSWER, within};
use crate::store::{Dialect as _, StoreError};

/// What a power cut takes back of a purge is purged again.
const SETTINGS: &str = "PRAGMA synchronous = NORMAL";

/// Rows of a step.
const ROWS: i64 = 1_000;

/// The cleaner's connection, apart from the workers' one.
pub struct SqliteRetention(Line<Sqlite>);

impl SqliteRetention {
    /// Opens the file and brings our tables up to date.
    ///
    /// # Errors
    /// Says why the database cannot be used.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Self(Line::new(Sqlite::open(url).await?, SETTINGS)))
    }

    /// Runs an errand; its connection is kept when it succeeds.
    async fn run<T>(
        &self,
        doing: &'static str,
        errand: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let mut line = self.0.take().await?;
        let done = within(ANSWER, doing, async { errand(&mut line).await.map_err(failed(doing)) }).await?;
        line.done();
        Ok(done)
    }
}

fn failed(doing: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::driver::<Sqlite>(doing, error)
}

/// A column with an instant as milliseconds since the Unix epoch.
macro_rules! millis_of {
    ($column:literal) => {
        concat!("CAST((julianday(", $column, ") - 2440587.5) * 86400000.0 AS INTEGER)")
    };
}

const NOW: &str = "SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)";

const UNSENT: &str = concat!(
    "SELECT topic, min(at) FROM (SELECT topic, ",
    millis_of!("min(coalesce(first_at, enqueued_at))"),
    " AS at FROM main.idempotent_jobs_outbox WHERE topic IN (SELECT value FROM json_each($1)) GROUP BY topic \
      UNION ALL SELECT topic, ",
    millis_of!("min(first_at)"),
    " FROM main.idempotent_jobs_sent WHERE topic IN (SELECT value FROM json_each($1)) GROUP BY topic) GROUP BY topic"
);

/// The timestamp is the sender's word: it is believed as far as it can be true.
const UNKEYED: &str = concat!(
    "SELECT topic, min(min(died, max(coalesce(\"timestamp\", 0), died - $3))) FROM (SELECT topic, \"timestamp\", ",
    millis_of!("died_at"),
    " AS died FROM main.idempotent_jobs_dead_letters WHERE key IS NULL AND state NOT IN ('redriven', 'skipped') \
      AND \"group\" = $1 AND topic IN (SELECT value FROM json_each($2))) GROUP BY topic"
);

const RESTED: &str = "\
SELECT EXISTS (SELECT 1 FROM main.idempotent_jobs_sweeps WHERE \"group\" = $1 \
    AND swept_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || $2 || ' seconds') \
    AND swept_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))";

const WATERMARKS: &str = "SELECT topic, \"partition\", \"offset\" FROM main.idempotent_jobs_watermarks \
    WHERE \"group\" = $1 AND topic IN (SELECT value FROM json_each($2))";
/// The row of an owner is there before its first message is given to a job. What is queued before has none.
const IN_HAND: &str = "\
SELECT topic, \"partition\" FROM main.idempotent_jobs_owners \
    WHERE \"group\" = $1 AND topic IN (SELECT value FROM json_each($2)) \
UNION SELECT topic, \"partition\" FROM main.idempotent_jobs_attempts \
    WHERE \"group\" = $1 AND topic IN (SELECT value FROM json_each($2))";

const SWEPT: &str = "\
INSERT INTO main.idempotent_jobs_sweeps (\"group\", swept_at) VALUES ($1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) \
ON CONFLICT (\"group\") DO UPDATE SET swept_at = excluded.swept_at";

/// The last row of the step that begins behind a key, if the step is full.
const UP_TO: &str = "\
SELECT job, key FROM main.idempotent_jobs_processed WHERE (job, key) > ($1, $2) ORDER BY job, key LIMIT 1 OFFSET $3";

/// The rows of a step, those that would go, and what stands against it. A letter that was skipped can be redriven all the
/// same. Without rows behind it, the last step has no upper end.
macro_rules! going {
    () => {
        "(job, key) > ($1, $2) AND ($3 IS NULL OR (job, key) <= ($3, $4)) AND \"group\" = $5 \
         AND EXISTS (SELECT 1 FROM bounds AS b WHERE b.topic = p.topic AND b.\"partition\" = p.\"partition\" \
             AND p.\"offset\" < b.below AND p.processed_at < b.before) \
         AND EXISTS (SELECT 1 FROM main.idempotent_jobs_watermarks AS w WHERE w.\"group\" = p.\"group\" AND w.topic = p.topic \
             AND w.\"partition\" = p.\"partition\" AND p.\"offset\" < w.\"offset\") \
         AND job NOT IN (SELECT name FROM main.idempotent_jobs_jobs WHERE shared) \
         AND NOT EXISTS (SELECT 1 FROM main.idempotent_jobs_dead_letters AS l \
             WHERE l.job = p.job AND l.key = p.key AND l.key IS NOT NULL AND l.state <> 'redriven')"
    };
}

/// SQLite has no arrays: the bounds come as JSON.
macro_rules! bounds {
    () => {
        "WITH bounds (topic, \"partition\", below, before) AS MATERIALIZED ( \
         SELECT value ->> 0, value ->> 1, value ->> 2, \
             strftime('%Y-%m-%dT%H:%M:%fZ', (value ->> 3) / 1000.0, 'unixepoch') FROM json_each($6)) "
    };
}

/// Asked before [`DELETE`], which takes the write lock.
const ANY: &str =
    concat!(bounds!(), "SELECT EXISTS (SELECT 1 FROM main.idempotent_jobs_processed AS p WHERE ", going!(), ")");

const DELETE: &str = concat!(
    bounds!(),
    "DELETE FROM main.idempotent_jobs_processed AS p WHERE ",
    going!(),
    " RETURNING topic, \"partition\", \"offset\""
);

const OLDEST: &str = concat!(
    "SELECT ",
    millis_of!("min(processed_at)"),
    " FROM main.idempotent_jobs_processed \
      WHERE (job, key) > ($1, $2) AND ($3 IS NULL OR (job, key) <= ($3, $4)) AND \"group\" = $5"
);

const RAISE: &str = "\
UPDATE main.idempotent_jobs_watermarks SET purged_to = max(purged_to, $4) \
WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3";

#[async_trait]
impl RetentionStore for SqliteRetention {
    async fn now(&self) -> Result<SystemTime, StoreError> {
        let now = async |conn: &mut SqliteConnection| sqlx::query_scalar(NOW).fetch_one(conn).await;
        self.run("reading the database's clock", now).await.map(instant)
    }

    async fn unsent(&self, topics: &[String]) -> Result<BTreeMap<String, SystemTime>, StoreError> {
        let topics = json(topics);
        let asking = async |conn: &mut SqliteConnection| sqlx::query_as(UNSENT).bind(topics).fetch_all(conn).await;
        Ok(times(self.run("looking for unsent records", asking).await?))
    }

    async fn unkeyed(
        &self,
        group: &str,
        topics: &[String],
        life: Duration,
    ) -> Result<BTreeMap<String, SystemTime>, StoreError> {
        let topics = json(topics);
        let life = i64::try_from(life.as_millis()).unwrap_or(i64::MAX / 2);
        let asking = async |conn: &mut SqliteConnection| {
            sqlx::query_as(UNKEYED).bind(group).bind(topics).bind(life).fetch_all(conn).await
        };
        Ok(times(self.run("looking for dead letters without a key", asking).await?))
    }

    async fn watermarks(&self, group: &str, topics: &[String]) -> Result<BTreeMap<(String, i32), i64>, StoreError> {
        let topics = json(topics);
        let asking = async |conn: &mut SqliteConnection| {
            sqlx::query_as::<_, (String, i32, i64)>(WATERMARKS).bind(group).bind(topics).fetch_all(conn).await
        };
        let rows = self.run("reading watermarks", asking).await?;
        Ok(rows.into_iter().map(|(topic, partition, offset)| ((topic, partition), offset)).collect())
    }

    async fn in_hand(&self, group: &str, topics: &[String]) -> Result<BTreeSet<(String, i32)>, StoreError> {
        let wanted = json(topics);
        let asking = async |conn: &mut SqliteConnection| {
            sqlx::query_as::<_, (String, i32)>(IN_HAND).bind(group).bind(wanted).fetch_all(conn).await
        };
        Ok(self.run("looking for messages in hand", asking).await?.into_iter().collect())
    }

    /// The write lock makes one cleaner of several: they take turns by steps, and what one deleted is not there for the
    /// next.
    async fn begin(&self, group: &str, rest: Duration) -> Result<Begun, StoreError> {
        let begin = async |conn: &mut SqliteConnection| {
            if sqlx::query_scalar(RESTED).bind(group).bind(rest.as_secs_f64()).fetch_one(&mut *conn).await? {
                return Ok(Begun::Rested);
            }
            Ok(Begun::Walk(Walk { at: Place::Key(String::new(), String::new()) }))
        };
        self.run("beginning to purge", begin).await
    }

    async fn step(&self, walk: &mut Walk, purge: &Purge) -> Result<Option<Step>, StoreError> {
        let Place::Key(job, key) = &walk.at else { return Ok(None) };
        let bounds: Vec<_> = purge.bounds.iter().map(|b| (&b.topic, b.partition, b.below, millis(b.before))).collect();
        let bounds = json(&bounds);
        let step = async |conn: &mut SqliteConnection| {
            let up_to = sqlx::query_as(UP_TO).bind(job).bind(key).bind(ROWS - 1).fetch_optional(&mut *conn).await?;
            let part = Part { from: (job, key), up_to, group: &purge.group, bounds: &bounds };
            let purged = if part.any(conn).await? { part.delete(conn).await? } else { Vec::new() };
            let oldest = part.oldest(conn).await?;
            Ok((Step { purged, oldest, last: part.up_to.is_none() }, part.up_to))
        };
        let (done, up_to) = self.run("purging old keys", step).await?;
        if let Some((job, key)) = up_to {
            walk.at = Place::Key(job, key);
        }
        Ok(Some(done))
    }

    async fn end(&self, group: &str) -> Result<(), StoreError> {
        let end = async |conn: &mut SqliteConnection| sqlx::query(SWEPT).bind(group).execute(conn).await.map(drop);
        self.run("ending a purge", end).await
    }
}

/// The rows between two keys, the upper one included.
struct Part<'a> {
    from: (&'a str, &'a str),
    up_to: Option<(String, String)>,
    group: &'a str,
    bounds: &'a str,
}

type Query<'a> = sqlx::query::Query<'a, Sqlite, sqlx::sqlite::SqliteArguments>;

impl Part<'_> {
    fn bind<'q>(&self, query: Query<'q>) -> Query<'q> {
        let (job, key) = self.up_to.clone().unzip();
        query.bind(self.from.0.to_owned()).bind(self.from.1.to_owned()).bind(job).bind(key).bind(self.group.to_owned())
    }

    async fn any(&self, conn: &mut SqliteConnection) -> Result<bool, Error> {
        use sqlx::Row as _;
        self.bind(sqlx::query(ANY)).bind(self.bounds.to_owned()).fetch_one(conn).await?.try_get(0)
    }

    async fn oldest(&self, conn: &mut SqliteConnection) -> Result<Option<SystemTime>, Error> {
        use sqlx::Row as _;
        let oldest: Option<i64> = self.bind(sqlx::query(OLDEST)).fetch_one(conn).await?.try_get(0)?;
        Ok(oldest.map(instant))
    }

    async fn delete(&self, conn: &mut SqliteConnection) -> Result<Vec<Purged>, Error> {
        use sqlx::Row as _;
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
        let rows = self.bind(sqlx::query(DELETE)).bind(self.bounds.to_owned()).fetch_all(&mut *tx).await?;
        let rows: Result<Vec<_>, Error> =
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect();
        let purged = added(rows?);
        raise_purged_to(&mut tx, self.group, &purged).await?;
        tx.commit().await?;
        Ok(purged)
    }
}

/// Whoever reads a partition from below that offset again would find its keys gone.
async fn raise_purged_to(conn: &mut SqliteConnection, group: &str, purged: &[Purged]) -> Result<(), Error> {
    for gone in purged {
        sqlx::query(RAISE)
            .bind(group)
            .bind(&gone.topic)
            .bind(gone.partition)
            .bind(gone.next)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("texts and numbers are JSON")
}

fn times(rows: Vec<(String, i64)>) -> BTreeMap<String, SystemTime> {
    rows.into_iter().map(|(topic, at)| (topic, instant(at))).collect()
}
