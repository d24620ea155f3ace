//! The `jobs` table.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Error, Sqlite, SqliteConnection};

use crate::store::register::{Highest, Recorded, Step, compare, undrained};
use crate::store::slots::connect;
use crate::store::{Committed, JobRow, StoreError};

/// Records jobs, or none of them if one is refused.
pub(super) async fn register(
    options: &SqliteConnectOptions,
    jobs: &[JobRow<'_>],
    committed: Committed<'_>,
) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreError::driver::<Sqlite>("registering the jobs", error);
    let mut conn = connect::<Sqlite>(options).await?;
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let mut refusals = Vec::new();
    for job in jobs {
        refusals.extend(register_one(&mut tx, job, committed).await.map_err(failed)?);
    }
    if refusals.is_empty() { tx.commit().await } else { tx.rollback().await }.map_err(failed)?;
    conn.close().await.map_err(failed)?;
    Ok(refusals)
}

async fn register_one(
    conn: &mut SqliteConnection,
    job: &JobRow<'_>,
    committed: Committed<'_>,
) -> Result<Option<String>, Error> {
    if insert(conn, job).await? {
        return Ok(None);
    }
    let recorded = recorded(conn, job).await?;
    match compare(job, &recorded) {
        Step::Keep => Ok(None),
        Step::Rescheme => update(conn, job).await.map(|()| None),
        Step::Refuse(refusal) => Ok(Some(refusal)),
        Step::Rekey => {
            let rows = highest(conn, job).await?;
            let refusal = undrained(job, &recorded, &rows, committed);
            if refusal.is_none() {
                update(conn, job).await?;
            }
            Ok(refusal)
        }
    }
}

async fn insert(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<bool, Error> {
    let done = sqlx::query(
        "INSERT INTO main.idempotent_jobs_jobs (name, \"group\", topic, key_form, scheme) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING",
    )
    .bind(job.name)
    .bind(job.group)
    .bind(job.topic)
    .bind(job.key_form)
    .bind(job.scheme)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The transaction holds the write lock: no other start judges by the same record.
async fn recorded(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<Recorded, Error> {
    let (group, topic, key_form, scheme) =
        sqlx::query_as("SELECT \"group\", topic, key_form, scheme FROM main.idempotent_jobs_jobs WHERE name = $1")
            .bind(job.name)
            .fetch_one(conn)
            .await?;
    Ok(Recorded { group, topic, key_form, scheme })
}

async fn update(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<(), Error> {
    sqlx::query(
        "UPDATE main.idempotent_jobs_jobs SET key_form = $2, scheme = $3, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE name = $1",
    )
    .bind(job.name)
    .bind(job.key_form)
    .bind(job.scheme)
    .execute(conn)
    .await
    .map(drop)
}

/// Reads every row of the job: only when its key changed, and an index for it would cost every
/// claim.
async fn highest(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<Vec<Highest>, Error> {
    let rows: Vec<(String, i32, i64)> = sqlx::query_as(
        "SELECT topic, \"partition\", max(\"offset\") FROM main.idempotent_jobs_processed \
         WHERE job = $1 AND \"group\" = $2 GROUP BY topic, \"partition\" ORDER BY topic, \"partition\"",
    )
    .bind(job.name)
    .bind(job.group)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(topic, partition, offset)| Highest { topic, partition, offset }).collect())
}
