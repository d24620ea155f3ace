//! Claims with an answer.

use sqlx::{Error, Executor, PgConnection, Postgres, Row};

use crate::store::answers::{Answers, Asked, Given};

/// Not by sqlx's own savepoints: when the opening of one is dropped midway, sqlx rolls the whole
/// transaction back, and its commit is then a success that stores nothing.
///
/// The trigger that refuses a claim without an answer is deferred once more, in case the
/// transaction made all constraints immediate.
const OPENING: &str = "SAVEPOINT idempotent_jobs_once; SET CONSTRAINTS idempotent_jobs.answered DEFERRED";

impl Answers for Postgres {
    const BY_DRIVER: bool = false;

    async fn open_part(conn: &mut PgConnection) -> Result<(), Error> {
        conn.execute(OPENING).await.map(drop)
    }

    async fn keep_part(conn: &mut PgConnection) -> Result<(), Error> {
        conn.execute("RELEASE SAVEPOINT idempotent_jobs_once").await.map(drop)
    }

    async fn undo_part(conn: &mut PgConnection) -> Result<(), Error> {
        let undoing = "ROLLBACK TO SAVEPOINT idempotent_jobs_once; RELEASE SAVEPOINT idempotent_jobs_once";
        conn.execute(undoing).await.map(drop)
    }

    // The trigger refuses to commit it.
    fn drop_part(_: &mut PgConnection) {}

    async fn insert_answer(conn: &mut PgConnection, asked: &Asked<'_>) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO idempotent_jobs.answers (scope, key, fingerprint) VALUES ($1, $2, $3) \
             ON CONFLICT (scope, key) DO NOTHING",
        )
        .bind(asked.scope)
        .bind(asked.key.stored())
        .bind(&asked.fingerprint.0[..])
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn look_answer(conn: &mut PgConnection, asked: &Asked<'_>) -> Result<Option<Given>, Error> {
        let row = sqlx::query("SELECT fingerprint, answer FROM idempotent_jobs.answers WHERE scope = $1 AND key = $2")
            .bind(asked.scope)
            .bind(asked.key.stored())
            .fetch_optional(conn)
            .await?;
        row.map(|row| Ok(Given { fingerprint: row.try_get(0)?, answer: row.try_get(1)? })).transpose()
    }

    async fn write_answer(conn: &mut PgConnection, asked: &Asked<'_>, answer: &[u8]) -> Result<bool, Error> {
        let done = sqlx::query("UPDATE idempotent_jobs.answers SET answer = $3 WHERE scope = $1 AND key = $2")
            .bind(asked.scope)
            .bind(asked.key.stored())
            .bind(answer)
            .execute(conn)
            .await?;
        Ok(done.rows_affected() == 1)
    }
}
