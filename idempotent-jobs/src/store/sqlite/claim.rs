//! The dedup insert.

use futures_util::TryStreamExt;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Either, Error, Executor, Row, Sqlite, SqliteConnection};

use crate::store::Claim;
use crate::store::outcome::Stored;

const INSERT: &str = "INSERT INTO main.idempotent_jobs_processed \
     (job, key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\") \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING";

/// Whether the key was free. Nobody else can hold it: the transaction holds the write lock.
pub(super) async fn insert(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<bool, Error> {
    let done = sqlx::query(INSERT).bind_claim(claim).execute(conn).await?;
    Ok(done.rows_affected() == 1)
}

/// The same behind `opening`, in one hop to the driver's thread. The text is the same for all
/// transactions of a session, so that its statements are prepared once.
pub(super) async fn open_and_insert(
    conn: &mut SqliteConnection,
    opening: &str,
    claim: &Claim<'_>,
) -> Result<bool, (Error, bool)> {
    let sql = AssertSqlSafe(format!("{opening}; {INSERT}"));
    let before = opening.split(';').count();
    let mut ends = conn.fetch_many(sqlx::query(sql).bind_claim(claim));
    let mut ended = 0;
    let mut written = 0;
    while let Some(end) = ends.try_next().await.map_err(|error| (error, ended >= before))? {
        if let Either::Left(done) = end {
            ended += 1;
            // Of a statement that writes nothing it is what the last one wrote.
            written = done.rows_affected();
        }
    }
    Ok(written == 1)
}

/// The claim's columns as the parameters of [`INSERT`].
pub(super) trait BindClaim {
    fn bind_claim(self, claim: &Claim<'_>) -> Self;
}

impl BindClaim for Query<'_, Sqlite, SqliteArguments> {
    fn bind_claim(self, claim: &Claim<'_>) -> Self {
        self.bind(claim.job.to_owned())
            .bind(claim.key.stored().into_owned())
            .bind(claim.fingerprint.0.to_vec())
            .bind(claim.scheme.to_owned())
            .bind(claim.group.to_owned())
            .bind(claim.at.topic.to_string())
            .bind(claim.at.partition)
            .bind(claim.at.offset)
    }
}

/// The row that holds the key.
pub(super) async fn look(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
    let row = sqlx::query(
        "SELECT fingerprint, scheme, \"group\", topic, \"partition\", \"offset\", state = 'dead' \
         FROM main.idempotent_jobs_processed WHERE job = $1 AND key = $2",
    )
    .bind(claim.job)
    .bind(claim.key.stored().into_owned())
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        Ok(Stored {
            fingerprint: row.try_get(0)?,
            scheme: row.try_get(1)?,
            group: row.try_get(2)?,
            topic: row.try_get(3)?,
            partition: row.try_get(4)?,
            offset: row.try_get(5)?,
            dead: row.try_get(6)?,
        })
    })
    .transpose()
}
