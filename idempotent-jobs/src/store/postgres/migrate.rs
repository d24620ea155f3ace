//! Our tables, in a schema of their own and with a migration table of their own.

use futures_util::TryFutureExt;
use sqlx::{Connection, Executor, PgConnection, Postgres};

use crate::store::StoreError;
use crate::store::migrate::{Migration, missing};
use crate::store::slots::{ANSWER, SCAN, within};

const DOING: &str = "bringing the tables up to date";

pub(super) const KNOWN: [Migration; 7] = [
    Migration { version: 1, sql: include_str!("../../../migrations/postgres/0001_claims.sql") },
    Migration { version: 2, sql: include_str!("../../../migrations/postgres/0002_outbox.sql") },
    Migration { version: 3, sql: include_str!("../../../migrations/postgres/0003_dead_letters.sql") },
    Migration { version: 4, sql: include_str!("../../../migrations/postgres/0004_parked.sql") },
    Migration { version: 5, sql: include_str!("../../../migrations/postgres/0005_attempts.sql") },
    Migration { version: 6, sql: include_str!("../../../migrations/postgres/0006_watermarks.sql") },
    Migration { version: 7, sql: include_str!("../../../migrations/postgres/0007_retention.sql") },
];

/// READ COMMITTED, so that what is read behind a lock is what its last holder left.
pub(super) const STARTING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 10000";

const SCHEMA: &str = "CREATE SCHEMA idempotent_jobs";

const RECORD: &str = "CREATE TABLE idempotent_jobs.migrations (\
    version integer PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now())";

/// Two halves of an advisory lock's number: "idem", and 1 for migrating.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(1768187245, 1)";

/// What an administrator runs when the worker's role may not create tables.
///
/// Afterwards the role needs `USAGE` on the schema `idempotent_jobs`, and `SELECT`, `INSERT`,
/// `UPDATE` and `DELETE` on its tables.
pub fn migrations_sql() -> String {
    let mut sql = format!("BEGIN;\n\n{SCHEMA};\n\n{RECORD};\n");
    for migration in KNOWN {
        sql += &format!("\n{}\n{};\n", migration.sql.trim_end(), recorded(&migration));
    }
    sql + "\nCOMMIT;\n"
}

fn recorded(migration: &Migration) -> String {
    format!(
        "INSERT INTO idempotent_jobs.migrations (version, checksum) VALUES ({}, '{}')",
        migration.version,
        migration.checksum()
    )
}

/// Finds the tables current, or makes them so. No DDL is sent when they are: the role may not
/// be allowed any.
pub(super) async fn migrate(conn: &mut PgConnection) -> Result<(), StoreError> {
    let found = within(ANSWER, DOING, applied(conn).map_err(failed)).await?;
    if found.is_none_or(|applied| missing(&KNOWN, &applied).is_ok_and(|steps| !steps.is_empty())) {
        within(SCAN, DOING, apply(conn)).await?;
    }
    let found = within(ANSWER, DOING, applied(conn).map_err(failed)).await?.unwrap_or_default();
    missing(&KNOWN, &found).map_err(|why| StoreError::lasting(DOING, why))?;
    within(ANSWER, DOING, verify(conn)).await
}

/// Finds the tables current, or says why they are not.
pub(super) async fn current(conn: &mut PgConnection) -> Result<(), StoreError> {
    let lasting = |why: String| StoreError::lasting(DOING, why);
    let found = applied(conn).await.map_err(failed)?.unwrap_or_default();
    match missing(&KNOWN, &found).map_err(lasting)? {
        steps if steps.is_empty() => Ok(()),
        steps => Err(lasting(format!(
            "{} of its migrations are missing, and a role that only reads applies none: start a worker of this version",
            steps.len()
        ))),
    }
}

/// What was applied, `None` without a migration table. Catalogs answer whatever the role may.
pub(super) async fn applied(conn: &mut PgConnection) -> Result<Option<Vec<(i32, String)>>, sqlx::Error> {
    let found: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'idempotent_jobs' AND c.relname = 'migrations')",
    )
    .fetch_one(&mut *conn)
    .await?;
    if !found {
        return Ok(None);
    }
    let rows = sqlx::query_as("SELECT version, checksum FROM idempotent_jobs.migrations ORDER BY version");
    rows.fetch_all(conn).await.map(Some)
}

/// Applies what is missing in one transaction; whoever else is at it waits, and finds it done.
async fn apply(conn: &mut PgConnection) -> Result<(), StoreError> {
    let mut tx = conn.begin_with(STARTING).await.map_err(failed)?;
    tx.execute(LOCK).await.map_err(failed)?;
    let schema: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'idempotent_jobs')")
            .fetch_one(&mut *tx)
            .await
            .map_err(failed)?;
    // Not IF NOT EXISTS: that asks for the right to create schemas even when there is one.
    if !schema {
        tx.execute(SCHEMA).await.map_err(failed)?;
    }
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

/// Checks the two things the promise stands on: one row a key, and the seal; and the rights to
/// use them, so that their lack shows now and not when a message arrives.
pub(super) async fn verify(conn: &mut PgConnection) -> Result<(), StoreError> {
    let unique: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
         WHERE i.indrelid = 'idempotent_jobs.processed'::regclass AND c.relkind = 'r' \
         AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL \
         AND i.indnkeyatts = 2 AND (SELECT array_agg(a.attname::text ORDER BY a.attname) \
             FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) = '{job,key}')",
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(failed)?;
    if !unique {
        return Err(StoreError::lasting(
            DOING,
            "`idempotent_jobs.processed` has to be a plain table with a unique index on exactly (job, key): \
             partitioned by time, or with more columns in the index, it lets a key in twice. Restore it as migrations make it",
        ));
    }
    let sealed: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'idempotent_jobs.sealed'::regclass \
         AND tgname = 'sealed' AND tgenabled IN ('O', 'A') AND tgdeferrable)",
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(failed)?;
    if !sealed {
        return Err(StoreError::lasting(
            DOING,
            "the trigger `sealed` on `idempotent_jobs.sealed` is missing or disabled",
        ));
    }
    let lacking: Vec<String> = sqlx::query_scalar(
        "SELECT t || ': ' || p FROM (VALUES ('processed', 'SELECT'), ('processed', 'INSERT'), ('processed', 'UPDATE'), \
         ('jobs', 'SELECT'), ('jobs', 'INSERT'), ('jobs', 'UPDATE'), \
         ('sealed', 'SELECT'), ('sealed', 'INSERT'), ('sealed', 'DELETE'), \
         ('dead_letters', 'SELECT'), ('dead_letters', 'INSERT'), ('dead_letters', 'UPDATE'), \
         ('dead_letter_history', 'SELECT'), ('dead_letter_history', 'INSERT'), \
         ('parked', 'SELECT'), ('parked', 'INSERT'), ('parked', 'UPDATE'), ('parked', 'DELETE'), \
         ('attempts', 'SELECT'), ('attempts', 'INSERT'), ('attempts', 'UPDATE'), ('attempts', 'DELETE'), \
         ('owners', 'SELECT'), ('owners', 'INSERT'), ('owners', 'UPDATE'), ('owners', 'DELETE'), \
         ('redrives', 'SELECT'), ('redrives', 'INSERT'), ('redrives', 'UPDATE'), ('redrives', 'DELETE'), \
         ('watermarks', 'SELECT'), ('watermarks', 'INSERT'), ('watermarks', 'UPDATE')) v(t, p) \
         WHERE NOT has_table_privilege('idempotent_jobs.' || t, p)",
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(failed)?;
    if lacking.is_empty() { Ok(()) } else { Err(denied(&lacking.join(", "))) }
}

pub(super) fn failed(error: sqlx::Error) -> StoreError {
    let code = error.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
    // Insufficient privilege; and a schema the role may not look into does not exist for it.
    if code.as_deref() == Some("42501") {
        denied(&error.to_string())
    } else {
        StoreError::waiting::<Postgres>(DOING, error)
    }
}

fn denied(what: &str) -> StoreError {
    StoreError::lasting(
        DOING,
        format!(
            "the role lacks rights ({what}). An administrator may either grant it CREATE on the database, or run the SQL of \
             `idempotent_jobs::postgres_migrations_sql()` (also in the crate's migrations/postgres) and then: \
             GRANT USAGE ON SCHEMA idempotent_jobs TO role; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA idempotent_jobs TO role;"
        ),
    )
}
