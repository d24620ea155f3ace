//! Our tables, under a prefix of their own and with a migration table of their own.

use sqlx::{Connection, Executor, Sqlite, SqliteConnection};

use crate::store::StoreError;
use crate::store::migrate::{Migration, missing};

const DOING: &str = "bringing the tables up to date";

pub(super) const KNOWN: [Migration; 7] = [
    Migration { version: 1, sql: include_str!("../../../migrations/sqlite/0001_claims.sql") },
    Migration { version: 2, sql: include_str!("../../../migrations/sqlite/0002_outbox.sql") },
    Migration { version: 3, sql: include_str!("../../../migrations/sqlite/0003_dead_letters.sql") },
    Migration { version: 4, sql: include_str!("../../../migrations/sqlite/0004_parked.sql") },
    Migration { version: 5, sql: include_str!("../../../migrations/sqlite/0005_attempts.sql") },
    Migration { version: 6, sql: include_str!("../../../migrations/sqlite/0006_watermarks.sql") },
    Migration { version: 7, sql: include_str!("../../../migrations/sqlite/0007_retention.sql") },
];

/// The write lock is the lock of migrations and records; the busy timeout bounds the wait.
pub(super) const STARTING: &str = "BEGIN IMMEDIATE";

const RECORD: &str = "CREATE TABLE idempotent_jobs_migrations (\
    version INTEGER NOT NULL PRIMARY KEY, checksum TEXT NOT NULL, \
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) STRICT";

/// What creates the tables by hand.
pub fn migrations_sql() -> String {
    let mut sql = format!("BEGIN IMMEDIATE;\n\n{RECORD};\n");
    for migration in KNOWN {
        sql += &format!("\n{}\n{};\n", migration.sql.trim_end(), recorded(&migration));
    }
    sql + "\nCOMMIT;\n"
}

fn recorded(migration: &Migration) -> String {
    format!(
        "INSERT INTO idempotent_jobs_migrations (version, checksum) VALUES ({}, '{}')",
        migration.version,
        migration.checksum()
    )
}

/// Finds the tables current, or makes them so. Nothing is written when they are.
pub(super) async fn migrate(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let applied = applied(conn).await.map_err(failed)?;
    if applied.is_none_or(|applied| missing(&KNOWN, &applied).is_ok_and(|steps| !steps.is_empty())) {
        apply(conn).await?;
    }
    let applied = self::applied(conn).await.map_err(failed)?.unwrap_or_default();
    missing(&KNOWN, &applied).map_err(|why| StoreError::lasting(DOING, why))?;
    verify(conn).await
}

/// What was applied, `None` without a migration table.
pub(super) async fn applied(conn: &mut SqliteConnection) -> Result<Option<Vec<(i32, String)>>, sqlx::Error> {
    let found: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'idempotent_jobs_migrations')",
    )
    .fetch_one(&mut *conn)
    .await?;
    if !found {
        return Ok(None);
    }
    let rows = sqlx::query_as("SELECT version, checksum FROM main.idempotent_jobs_migrations ORDER BY version");
    rows.fetch_all(conn).await.map(Some)
}

/// Applies what is missing in one transaction; whoever else is at it waits, and finds it done.
async fn apply(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let mut tx = conn.begin_with(STARTING).await.map_err(failed)?;
    let applied = applied(&mut tx).await.map_err(failed)?;
    if applied.is_none() {
        tx.execute(RECORD).await.map_err(failed)?;
    }
    let steps = missing(&KNOWN, &applied.unwrap_or_default()).map_err(|why| StoreError::lasting(DOING, why))?;
    for step in steps {
        tx.execute(step.sql).await.map_err(failed)?;
        tx.execute(sqlx::AssertSqlSafe(recorded(&step))).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)
}

/// Checks what the promise stands on: one row a key. SQLite has no partitions and no roles,
/// and the seal is a hook.
pub(super) async fn verify(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let unique: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM pragma_index_list('idempotent_jobs_processed', 'main') l \
         WHERE l.\"unique\" AND NOT l.partial \
         AND (SELECT group_concat(name) FROM (SELECT name FROM pragma_index_info(l.name, 'main') ORDER BY name)) = 'job,key')",
    )
    .fetch_one(conn)
    .await
    .map_err(failed)?;
    if unique {
        return Ok(());
    }
    Err(StoreError::lasting(
        DOING,
        "`idempotent_jobs_processed` has to have a unique index on exactly (job, key): \
         with more columns in it, it lets a key in twice. Restore it as migrations make it",
    ))
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::waiting::<Sqlite>(DOING, error)
}
