//! A look at SQLite.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Error, Sqlite, SqliteConnection};

use super::{migrate, open, parked, watermarks};
use crate::store::StoreError;
use crate::store::inspect::{
    Contents, Count, Database, Lanes, MOST, Marks, NAMED, Outbox, Owners, RecordedJob, Tables, indexes, tables,
};
use crate::store::slots::{ANSWER, connect, part, within};
use crate::store::watermarks::WatermarkSql as _;

const DOING: &str = "looking at the database";

pub(in crate::store) async fn inspect(url: &str) -> Result<Database, StoreError> {
    let (options, path) = options(url)?;
    let look = async {
        let mut conn = connect::<Sqlite>(&options).await?;
        let place = format!("SQLite file `{}`", path.display());
        let seen = within(ANSWER, DOING, async { look(&mut conn, place).await }).await;
        part::<Sqlite>(conn).await;
        seen
    };
    look.await.map_err(|error| open::at(&path, error))
}

/// A look makes no file.
fn options(url: &str) -> Result<(SqliteConnectOptions, PathBuf), StoreError> {
    let options = SqliteConnectOptions::from_str(url).map_err(|error| {
        StoreError::lasting("reading DATABASE_URL", format!("not of the form sqlite://path/to/file.db: {error}"))
    })?;
    let path = options.get_filename().to_owned();
    Ok((options.create_if_missing(false).busy_timeout(open::BUSY), path))
}

pub(in crate::store) async fn standing(url: &str) -> Result<Tables, StoreError> {
    let (options, path) = options(url)?;
    let look = async {
        let mut conn = connect::<Sqlite>(&options).await?;
        let applied = within(ANSWER, DOING, async { migrate::applied(&mut conn).await.map_err(failed) }).await;
        part::<Sqlite>(conn).await;
        Ok(tables(&migrate::KNOWN, applied?.as_deref()))
    };
    look.await.map_err(|error| open::at(&path, error))
}

pub(in crate::store) async fn marks(url: &str) -> Result<Marks, StoreError> {
    let (options, path) = options(url)?;
    let look = async {
        let mut conn = connect::<Sqlite>(&options).await?;
        let read = within(ANSWER, DOING, async { marked(&mut conn).await.map_err(failed) }).await;
        part::<Sqlite>(conn).await;
        read
    };
    look.await.map_err(|error| open::at(&path, error))
}

async fn marked(conn: &mut SqliteConnection) -> Result<Marks, Error> {
    let lineage = Sqlite::lineage(conn).await?;
    Ok(Marks { lineage, rows: watermarks::all(conn).await? })
}

fn failed(error: Error) -> StoreError {
    StoreError::driver::<Sqlite>(DOING, error)
}

/// Durability is set by each connection, and clocks are one machine's.
async fn look(conn: &mut SqliteConnection, place: String) -> Result<Database, StoreError> {
    let version = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *conn).await.map_err(failed)?;
    let applied = migrate::applied(conn).await.map_err(failed)?;
    let tables = tables(&migrate::KNOWN, applied.as_deref());
    let contents = match &tables {
        Tables::Current(_) => Some(contents(conn).await?),
        _ => None,
    };
    Ok(Database { place, version, too_old: false, settings: Vec::new(), pooled: false, skew: None, tables, contents })
}

async fn contents(conn: &mut SqliteConnection) -> Result<Contents, StoreError> {
    let unsound = migrate::verify(conn).await.err().map(|error| error.to_string());
    let mut tx = conn.begin().await.map_err(failed)?;
    let contents = read(&mut tx).await.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    Ok(Contents { unsound, ..contents })
}

async fn read(conn: &mut SqliteConnection) -> Result<Contents, Error> {
    let usable: Vec<String> =
        sqlx::query_scalar("SELECT name FROM main.sqlite_schema WHERE type = 'index'").fetch_all(&mut *conn).await?;
    let is_missing = |name: &&str| !usable.iter().any(|usable| usable == *name);
    let jobs: Vec<(String, String, String)> =
        sqlx::query_as("SELECT name, \"group\", topic FROM main.idempotent_jobs_jobs ORDER BY name")
            .fetch_all(&mut *conn)
            .await?;
    let relays: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM main.idempotent_jobs_relays WHERE alive_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    )
    .fetch_one(&mut *conn)
    .await?;
    Ok(Contents {
        unsound: None,
        indexes: indexes(&migrate::KNOWN).into_iter().filter(is_missing).map(str::to_owned).collect(),
        jobs: jobs.into_iter().map(|(name, group, topic)| RecordedJob { name, group, topic }).collect(),
        outbox: Outbox {
            ready: count(conn, "outbox", "enqueued_at", "ready").await?,
            later: count(conn, "outbox", "enqueued_at", "later").await?,
            set_aside: count(conn, "outbox", "enqueued_at", "failed").await?,
            held: count(conn, "outbox", "enqueued_at", "held").await?,
        },
        relays: u64::try_from(relays).unwrap_or(0),
        open: count(conn, "dead_letters", "died_at", "open").await?,
        requested: count(conn, "dead_letters", "died_at", "requested").await?,
        lanes: lanes(conn).await?,
        attempts: attempts(conn).await?,
        owners: owners(conn).await?,
        sweeps: sweeps(conn).await?,
    })
}

async fn lanes(conn: &mut SqliteConnection) -> Result<Lanes, Error> {
    let sql = format!(
        "SELECT count(*), CAST((julianday('now') - julianday(min(since))) * 86400000 AS INTEGER), coalesce(sum(waiting), 0), count(full_since) \
         FROM (SELECT since, waiting, full_since FROM main.idempotent_jobs_parked LIMIT {MOST})"
    );
    let (rows, oldest, waiting, full): (i64, Option<i64>, i64, i64) =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut *conn).await?;
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let first = if rows > 0 { parked::pressing(conn, NAMED).await? } else { Vec::new() };
    Ok(Lanes { all: Count::new(rows, oldest), waiting: number(waiting), full: number(full), first })
}

async fn attempts(conn: &mut SqliteConnection) -> Result<Count, Error> {
    let sql = format!(
        "SELECT count(*), CAST((julianday('now') - julianday(min(changed_at))) * 86400000 AS INTEGER) \
         FROM (SELECT changed_at FROM main.idempotent_jobs_attempts LIMIT {MOST})"
    );
    let (rows, oldest): (i64, Option<i64>) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(conn).await?;
    Ok(Count::new(rows, oldest))
}

async fn owners(conn: &mut SqliteConnection) -> Result<Vec<Owners>, Error> {
    let rows: Vec<(String, i64, Option<i64>, i64)> = sqlx::query_as(
        "SELECT \"group\", count(*), CAST((julianday('now') - julianday(min(since))) * 86400000 AS INTEGER), \
         coalesce(sum(CASE WHEN deaths > 0 THEN 1 ELSE 0 END), 0) \
         FROM main.idempotent_jobs_owners GROUP BY \"group\" ORDER BY \"group\"",
    )
    .fetch_all(conn)
    .await?;
    let owners = |(group, rows, oldest, deadly): (_, _, _, i64)| Owners {
        group,
        partitions: Count::new(rows, oldest),
        deadly: u64::try_from(deadly).unwrap_or(0),
    };
    Ok(rows.into_iter().map(owners).collect())
}

async fn sweeps(conn: &mut SqliteConnection) -> Result<Vec<(String, Duration)>, Error> {
    let rows: Vec<(String, i64)> =
        sqlx::query_as("SELECT \"group\", CAST((julianday('now') - julianday(swept_at)) * 86400000 AS INTEGER) FROM main.idempotent_jobs_sweeps ORDER BY \"group\"")
            .fetch_all(conn)
            .await?;
    let ago = |(group, millis): (_, i64)| (group, Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    Ok(rows.into_iter().map(ago).collect())
}

/// The words are ours.
async fn count(conn: &mut SqliteConnection, table: &str, since: &str, state: &str) -> Result<Count, Error> {
    let sql = format!(
        "SELECT count(*), CAST((julianday('now') - julianday(min(since))) * 86400000 AS INTEGER) \
         FROM (SELECT {since} AS since FROM main.idempotent_jobs_{table} WHERE state = '{state}' LIMIT {MOST})"
    );
    let (rows, oldest): (i64, Option<i64>) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(conn).await?;
    Ok(Count::new(rows, oldest))
}
