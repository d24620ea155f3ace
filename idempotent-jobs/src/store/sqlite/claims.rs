//! The dedup inserts of several messages of one job.

use std::collections::HashMap;

use sqlx::{Error, Row, SqliteConnection};

use crate::store::Claim;
use crate::store::outcome::Stored;

/// The keys that were free. Nobody else can hold one: the transaction holds the write lock.
///
/// SQLite has no arrays: the rows come as one JSON text, so that one prepared statement serves
/// any number of them, and the fingerprints, which are no text, as one blob.
pub(super) async fn insert(conn: &mut SqliteConnection, claims: &[Claim<'_>]) -> Result<Vec<String>, Error> {
    let Some(first) = claims.first() else { return Ok(Vec::new()) };
    let fingerprints: Vec<u8> = claims.iter().flat_map(|claim| claim.fingerprint.0).collect();
    let rows: Vec<_> = claims
        .iter()
        .map(|claim| (claim.key.stored(), &*claim.at.topic, claim.at.partition, claim.at.offset))
        .collect();
    // WHERE true: ON CONFLICT would otherwise be read as the condition of a join.
    sqlx::query_scalar(
        "INSERT INTO main.idempotent_jobs_processed \
         (job, key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\") \
         SELECT $1, c.value ->> 0, substr($2, c.key * 32 + 1, 32), $3, $4, \
         c.value ->> 1, c.value ->> 2, c.value ->> 3 \
         FROM json_each($5) AS c WHERE true ON CONFLICT (job, key) DO NOTHING RETURNING key",
    )
    .bind(first.job)
    .bind(fingerprints)
    .bind(first.scheme)
    .bind(first.group)
    .bind(json(&rows)?)
    .fetch_all(conn)
    .await
}

/// The rows that hold the keys.
pub(super) async fn look(conn: &mut SqliteConnection, claims: &[Claim<'_>]) -> Result<HashMap<String, Stored>, Error> {
    let Some(first) = claims.first() else { return Ok(HashMap::new()) };
    let keys: Vec<_> = claims.iter().map(|claim| claim.key.stored()).collect();
    let rows = sqlx::query(
        "SELECT key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\", state = 'dead' \
         FROM main.idempotent_jobs_processed WHERE job = $1 AND key IN (SELECT value FROM json_each($2))",
    )
    .bind(first.job)
    .bind(json(&keys)?)
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

fn json(rows: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(rows).map_err(|error| Error::Encode(Box::new(error)))
}
