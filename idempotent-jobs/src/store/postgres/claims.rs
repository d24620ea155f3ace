//! The dedup inserts of several messages of one job.

use std::collections::HashMap;

use sqlx::{Error, PgConnection, Row};

use crate::store::Claim;
use crate::store::outcome::Stored;

/// The keys that were free. Waits for other transactions that hold any of them.
///
/// In the order of the keys: two transactions that claim the same keys then wait for each other
/// in one direction, never in a circle.
pub(super) async fn insert(conn: &mut PgConnection, claims: &[Claim<'_>]) -> Result<Vec<String>, Error> {
    let Some(first) = claims.first() else { return Ok(Vec::new()) };
    let keys: Vec<_> = claims.iter().map(|claim| claim.key.stored()).collect();
    let fingerprints: Vec<_> = claims.iter().map(|claim| &claim.fingerprint.0[..]).collect();
    let topics: Vec<_> = claims.iter().map(|claim| &*claim.at.topic).collect();
    let partitions: Vec<_> = claims.iter().map(|claim| claim.at.partition).collect();
    let offsets: Vec<_> = claims.iter().map(|claim| claim.at.offset).collect();
    sqlx::query_scalar(
        "INSERT INTO idempotent_jobs.processed \
         (job, key, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
         SELECT $1, c.key, c.fingerprint, $2, $3, c.topic, c.partition, c.\"offset\" \
         FROM unnest($4::text[], $5::bytea[], $6::text[], $7::integer[], $8::bigint[]) \
         AS c (key, fingerprint, topic, partition, \"offset\") \
         ORDER BY c.key COLLATE \"C\" ON CONFLICT (job, key) DO NOTHING RETURNING key",
    )
    .bind(first.job)
    .bind(first.scheme)
    .bind(first.group)
    .bind(keys)
    .bind(fingerprints)
    .bind(topics)
    .bind(partitions)
    .bind(offsets)
    .fetch_all(conn)
    .await
}

/// The rows that hold the keys.
pub(super) async fn look(conn: &mut PgConnection, claims: &[Claim<'_>]) -> Result<HashMap<String, Stored>, Error> {
    let Some(first) = claims.first() else { return Ok(HashMap::new()) };
    let keys: Vec<_> = claims.iter().map(|claim| claim.key.stored()).collect();
    let rows = sqlx::query(
        "SELECT key, fingerprint, scheme, \"group\", topic, partition, \"offset\", state = 'dead' \
         FROM idempotent_jobs.processed WHERE job = $1 AND key = ANY ($2)",
    )
    .bind(first.job)
    .bind(keys)
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let stored = Stored {
                fingerprint: row.try_get(1)?,
                scheme: row.try_get(2)?,
                group: row.try_get(3)?,
                topic: row.try_get(4)?,
                partition: row.try_get(5)?,
                offset: row.try_get(6)?,
                dead: row.try_get(7)?,
            };
            Ok((row.try_get(0)?, stored))
        })
        .collect()
}
