//! The `jobs` table.

use sqlx::{Error, PgConnection};

use crate::store::JobRow;
use crate::store::register::{Highest, Recorded};

pub(super) async fn record(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<bool, Error> {
    let done = sqlx::query(
        "INSERT INTO idempotent_jobs.jobs (name, \"group\", topic, key_form, scheme, shared) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO NOTHING",
    )
    .bind(job.name)
    .bind(job.group)
    .bind(job.topic)
    .bind(job.key_form)
    .bind(job.scheme)
    .bind(job.shared)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

pub(super) async fn recorded(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<Recorded, Error> {
    let (group, topic, key_form, scheme) = sqlx::query_as(
        "SELECT \"group\", topic, key_form, scheme FROM idempotent_jobs.jobs WHERE name = $1 FOR UPDATE",
    )
    .bind(job.name)
    .fetch_one(conn)
    .await?;
    Ok(Recorded { group, topic, key_form, scheme })
}

pub(super) async fn change(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<(), Error> {
    sqlx::query(
        "UPDATE idempotent_jobs.jobs SET key_form = $2, scheme = $3, updated_at = pg_catalog.now() WHERE name = $1",
    )
    .bind(job.name)
    .bind(job.key_form)
    .bind(job.scheme)
    .execute(conn)
    .await
    .map(drop)
}

pub(super) async fn share(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<(), Error> {
    sqlx::query("UPDATE idempotent_jobs.jobs SET shared = true WHERE name = $1 AND NOT shared")
        .bind(job.name)
        .execute(conn)
        .await
        .map(drop)
}

pub(super) async fn highest(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<Vec<Highest>, Error> {
    let rows: Vec<(String, i32, i64)> = sqlx::query_as(
        "SELECT topic, partition, max(\"offset\") FROM idempotent_jobs.processed \
         WHERE job = $1 AND \"group\" = $2 GROUP BY topic, partition ORDER BY topic, partition",
    )
    .bind(job.name)
    .bind(job.group)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(topic, partition, offset)| Highest { topic, partition, offset }).collect())
}
