//! The dedup insert.

use sqlx::{Error, PgConnection, Row};

use crate::store::Claim;
use crate::store::outcome::Stored;

/// Whether the key was free. Waits for another transaction that holds it.
pub(super) async fn insert(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<bool, Error> {
    let done = sqlx::query(
        "INSERT INTO idempotent_jobs.processed \
         (job, key, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING",
    )
    .bind(claim.job)
    .bind(claim.key.stored())
    .bind(&claim.fingerprint.0[..])
    .bind(claim.scheme)
    .bind(claim.group)
    .bind(&*claim.at.topic)
    .bind(claim.at.partition)
    .bind(claim.at.offset)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The row that holds the key.
pub(super) async fn look(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
    let row = sqlx::query(
        "SELECT fingerprint, scheme, \"group\", topic, partition, \"offset\" \
         FROM idempotent_jobs.processed WHERE job = $1 AND key = $2",
    )
    .bind(claim.job)
    .bind(claim.key.stored())
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
        })
    })
    .transpose()
}
