//! A look at PostgreSQL.

use std::time::{Duration, SystemTime};

use sqlx::{AssertSqlSafe, Connection, Error, PgConnection, Postgres};

use super::{migrate, open, parked, watermarks};
use crate::store::StoreError;
use crate::store::inspect::{
    Contents, Count, Database, Lanes, MOST, Marks, NAMED, Outbox, Owners, RecordedJob, Tables, indexes, tables,
};
use crate::store::slots::{ANSWER, connect, part, within};
use crate::store::watermarks::WatermarkSql as _;

const DOING: &str = "looking at the database";

/// In the order of [`SETTINGS`].
const NAMES: [&str; 6] = [
    "default_transaction_isolation",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "default_transaction_read_only",
    "in_recovery",
];

const SETTINGS: &str = "\
SELECT current_setting('default_transaction_isolation'), current_setting('synchronous_commit'), \
    current_setting('fsync'), current_setting('full_page_writes'), current_setting('default_transaction_read_only'), \
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on' ELSE 'off' END";

pub(in crate::store) async fn inspect(url: &str) -> Result<Database, StoreError> {
    let options = open::options(url)?;
    let place = open::place(&options);
    let look = async {
        let (mut conn, mut other) = (connect::<Postgres>(&options).await?, connect::<Postgres>(&options).await?);
        let seen = within(ANSWER, DOING, async { look(&mut conn, &mut other, place.clone()).await }).await;
        part::<Postgres>(conn).await;
        part::<Postgres>(other).await;
        seen
    };
    look.await.map_err(|error| open::at(&place, error))
}

pub(in crate::store) async fn standing(url: &str) -> Result<Tables, StoreError> {
    let options = open::options(url)?;
    let look = async {
        let mut conn = connect::<Postgres>(&options).await?;
        let standing = within(ANSWER, DOING, async { Ok(stands(&mut conn).await) }).await;
        part::<Postgres>(conn).await;
        standing
    };
    look.await.map_err(|error| open::at(&open::place(&options), error))
}

async fn stands(conn: &mut PgConnection) -> Tables {
    match migrate::applied(conn).await {
        Ok(applied) => tables(&migrate::KNOWN, applied.as_deref()),
        Err(error) => Tables::Refused(migrate::failed(error).to_string()),
    }
}

pub(in crate::store) async fn marks(url: &str) -> Result<Marks, StoreError> {
    let options = open::options(url)?;
    let look = async {
        let mut conn = connect::<Postgres>(&options).await?;
        let read = within(ANSWER, DOING, async { marked(&mut conn).await.map_err(failed) }).await;
        part::<Postgres>(conn).await;
        read
    };
    look.await.map_err(|error| open::at(&open::place(&options), error))
}

async fn marked(conn: &mut PgConnection) -> Result<Marks, Error> {
    let lineage = Postgres::lineage(conn).await?;
    Ok(Marks { lineage, rows: watermarks::all(conn).await? })
}

fn failed(error: Error) -> StoreError {
    StoreError::driver::<Postgres>(DOING, error)
}

async fn look(conn: &mut PgConnection, other: &mut PgConnection, place: String) -> Result<Database, StoreError> {
    let pooled = open::pooled(conn, other).await.map_err(failed)?;
    let (number, version) = open::version(conn).await.map_err(failed)?;
    let mut database = Database {
        place,
        version,
        too_old: number < open::OLDEST,
        settings: Vec::new(),
        pooled,
        skew: None,
        tables: Tables::Absent,
        contents: None,
    };
    // A proxy may not carry the statements that follow.
    if pooled {
        return Ok(database);
    }
    let values: [String; 6] = {
        let row: (String, String, String, String, String, String) =
            sqlx::query_as(SETTINGS).fetch_one(&mut *conn).await.map_err(failed)?;
        [row.0, row.1, row.2, row.3, row.4, row.5]
    };
    database.settings = NAMES.into_iter().zip(values).collect();
    database.skew = Some(skew(conn).await.map_err(failed)?);
    database.tables = stands(conn).await;
    if matches!(database.tables, Tables::Current(_)) {
        database.contents = Some(contents(conn).await?);
    }
    Ok(database)
}

/// The middle of the question is the best guess at when it was answered.
async fn skew(conn: &mut PgConnection) -> Result<i64, Error> {
    let asked = now();
    let theirs: i64 = sqlx::query_scalar("SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint")
        .fetch_one(conn)
        .await?;
    Ok(theirs - (asked + now()) / 2)
}

async fn contents(conn: &mut PgConnection) -> Result<Contents, StoreError> {
    let unsound = migrate::verify(conn).await.err().map(|error| error.to_string());
    // What may not be read would be an error of the look, and is told already.
    let mut tx = conn.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.map_err(failed)?;
    let read = read(&mut tx).await;
    let rolled = tx.rollback().await;
    match read {
        Ok(contents) => rolled.map(|()| Contents { unsound, ..contents }).map_err(failed),
        Err(_) if unsound.is_some() => Ok(Contents { unsound, ..Contents::default() }),
        Err(error) => Err(failed(error)),
    }
}

async fn read(conn: &mut PgConnection) -> Result<Contents, Error> {
    let usable: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'idempotent_jobs' AND i.indisvalid AND i.indisready",
    )
    .fetch_all(&mut *conn)
    .await?;
    let is_missing = |name: &&str| !usable.iter().any(|usable| usable == *name);
    let jobs: Vec<(String, String, String)> =
        sqlx::query_as("SELECT name, \"group\", topic FROM idempotent_jobs.jobs ORDER BY name")
            .fetch_all(&mut *conn)
            .await?;
    let relays: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM idempotent_jobs.relays WHERE alive_until > pg_catalog.clock_timestamp()",
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

async fn lanes(conn: &mut PgConnection) -> Result<Lanes, Error> {
    let sql = format!(
        "SELECT count(*), (extract(epoch FROM pg_catalog.clock_timestamp() - min(since)) * 1000)::bigint, coalesce(sum(waiting), 0)::bigint, count(full_since) \
         FROM (SELECT since, waiting, full_since FROM idempotent_jobs.parked LIMIT {MOST}) AS rows"
    );
    let (rows, oldest, waiting, full): (i64, Option<i64>, i64, i64) =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut *conn).await?;
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let first = if rows > 0 { parked::pressing(conn, NAMED).await? } else { Vec::new() };
    Ok(Lanes { all: Count::new(rows, oldest), waiting: number(waiting), full: number(full), first })
}

async fn attempts(conn: &mut PgConnection) -> Result<Count, Error> {
    let sql = format!(
        "SELECT count(*), (extract(epoch FROM pg_catalog.clock_timestamp() - min(changed_at)) * 1000)::bigint \
         FROM (SELECT changed_at FROM idempotent_jobs.attempts LIMIT {MOST}) AS rows"
    );
    let (rows, oldest): (i64, Option<i64>) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(conn).await?;
    Ok(Count::new(rows, oldest))
}

async fn owners(conn: &mut PgConnection) -> Result<Vec<Owners>, Error> {
    let rows: Vec<(String, i64, Option<i64>, i64)> = sqlx::query_as(
        "SELECT \"group\", count(*), (extract(epoch FROM pg_catalog.clock_timestamp() - min(since)) * 1000)::bigint, \
         coalesce(sum(CASE WHEN deaths > 0 THEN 1 ELSE 0 END), 0)::bigint \
         FROM idempotent_jobs.owners GROUP BY \"group\" ORDER BY \"group\"",
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

async fn sweeps(conn: &mut PgConnection) -> Result<Vec<(String, Duration)>, Error> {
    let rows: Vec<(String, i64)> =
        sqlx::query_as("SELECT \"group\", (extract(epoch FROM pg_catalog.clock_timestamp() - swept_at) * 1000)::bigint FROM idempotent_jobs.sweeps ORDER BY \"group\"")
            .fetch_all(conn)
            .await?;
    let ago = |(group, millis): (_, i64)| (group, Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    Ok(rows.into_iter().map(ago).collect())
}

/// The words are ours.
async fn count(conn: &mut PgConnection, table: &str, since: &str, state: &str) -> Result<Count, Error> {
    let sql = format!(
        "SELECT count(*), (extract(epoch FROM pg_catalog.clock_timestamp() - min(since)) * 1000)::bigint \
         FROM (SELECT {since} AS since FROM idempotent_jobs.{table} WHERE state = '{state}' LIMIT {MOST}) AS rows"
    );
    let (rows, oldest): (i64, Option<i64>) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(conn).await?;
    Ok(Count::new(rows, oldest))
}

/// Milliseconds since the Unix epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
