//! Claims with an answer.

use sqlx::sqlite::SqliteTransactionManager;
use sqlx::{Error, Row, Sqlite, SqliteConnection};
use sqlx_core::transaction::TransactionManager;

use crate::store::answers::{Answers, Asked, Given};

impl Answers for Sqlite {
    const BY_DRIVER: bool = true;

    // By sqlx's own savepoints: its thread undoes one whose opening was dropped midway, and
    // nothing else would be undone after a drop, since no trigger of SQLite waits for COMMIT.
    async fn open_part(conn: &mut SqliteConnection) -> Result<(), Error> {
        SqliteTransactionManager::begin(conn, None).await
    }

    async fn keep_part(conn: &mut SqliteConnection) -> Result<(), Error> {
        SqliteTransactionManager::commit(conn).await
    }

    async fn undo_part(conn: &mut SqliteConnection) -> Result<(), Error> {
        SqliteTransactionManager::rollback(conn).await
    }

    fn drop_part(conn: &mut SqliteConnection) {
        SqliteTransactionManager::start_rollback(conn);
    }

    async fn insert_answer(conn: &mut SqliteConnection, asked: &Asked<'_>) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO main.idempotent_jobs_answers (scope, key, fingerprint) VALUES ($1, $2, $3) \
             ON CONFLICT (scope, key) DO NOTHING",
        )
        .bind(asked.scope)
        .bind(asked.key.stored())
        .bind(&asked.fingerprint.0[..])
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn look_answer(conn: &mut SqliteConnection, asked: &Asked<'_>) -> Result<Option<Given>, Error> {
        let row =
            sqlx::query("SELECT fingerprint, answer FROM main.idempotent_jobs_answers WHERE scope = $1 AND key = $2")
                .bind(asked.scope)
                .bind(asked.key.stored())
                .fetch_optional(conn)
                .await?;
        row.map(|row| Ok(Given { fingerprint: row.try_get(0)?, answer: row.try_get(1)? })).transpose()
    }

    async fn write_answer(conn: &mut SqliteConnection, asked: &Asked<'_>, answer: &[u8]) -> Result<bool, Error> {
        let done = sqlx::query("UPDATE main.idempotent_jobs_answers SET answer = $3 WHERE scope = $1 AND key = $2")
            .bind(asked.scope)
            .bind(asked.key.stored())
            .bind(answer)
            .execute(conn)
            .await?;
        Ok(done.rows_affected() == 1)
    }
}
