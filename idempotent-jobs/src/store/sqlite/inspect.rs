//! A look at SQLite.

use std::str::FromStr;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Error, Sqlite, SqliteConnection};

use super::{migrate, open};
use crate::store::StoreError;
use crate::store::inspect::{Contents, Count, Database, MOST, Outbox, RecordedJob, Tables, indexes, tables};
use crate::store::slots::{ANSWER, connect, part, within};

const DOING: &str = "looking at the database";

pub(in crate::store) async fn inspect(url: &str) -> Result<Database, StoreError> {
    let options = SqliteConnectOptions::from_str(url).map_err(|error| {
        StoreError::lasting("reading DATABASE_URL", format!("not of the form sqlite://path/to/file.db: {error}"))
    })?;
    let path = options.get_filename().to_owned();
    // A look makes no file.
    let options = options.create_if_missing(false).busy_timeout(open::BUSY);
    let look = async {
        let mut conn = connect::<Sqlite>(&options).await?;
        let place = format!("SQLite file `{}`", path.display());
        let seen = within(ANSWER, DOING, async { look(&mut conn, place).await }).await;
        part::<Sqlite>(conn).await;
        seen
    };
    look.await.map_err(|error| open::at(&path, error))
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
    })
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
