//! The dedup insert.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Error, PgConnection, Postgres, Row};

use super::session::limits;
use crate::key::hex;
use crate::store::outcome::Stored;
use crate::store::{Claim, Terms};

/// Whether the key was free. Waits for another transaction that holds it.
pub(super) async fn insert(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<bool, Error> {
    let done = sqlx::query(
        "INSERT INTO idempotent_jobs.processed \
         (job, key, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING",
    )
    .bind_claim(claim)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The claim's columns as the parameters of statements that write them.
pub(super) trait BindClaim<'q> {
    fn bind_claim(self, claim: &'q Claim<'q>) -> Self;
}

impl<'q> BindClaim<'q> for Query<'q, Postgres, PgArguments> {
    fn bind_claim(self, claim: &'q Claim<'q>) -> Self {
        self.bind(claim.job)
            .bind(claim.key.stored())
            .bind(&claim.fingerprint.0[..])
            .bind(claim.scheme)
            .bind(claim.group)
            .bind(&*claim.at.topic)
            .bind(claim.at.partition)
            .bind(claim.at.offset)
    }
}

/// Prepares the insert by name on a new connection, for [`inserting`].
pub(super) const PREPARING: &str = "PREPARE idempotent_jobs_claim \
     (text, text, bytea, text, text, text, integer, bigint) AS \
     INSERT INTO idempotent_jobs.processed \
     (job, key, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING";

/// The same insert as text, with next to no patience: the answer to the COMMIT before it waits too.
///
/// Texts with a NUL, at which a text ends, are left to the insert by itself.
pub(super) fn inserting(claim: &Claim<'_>, terms: &Terms) -> Option<[String; 3]> {
    let key = claim.key.stored();
    let texts = [claim.job, &key, claim.scheme, claim.group, &claim.at.topic];
    if texts.iter().any(|text| text.contains('\0')) {
        return None;
    }
    let [job, key, scheme, group, topic] = texts.map(literal);
    let fingerprint = hex(&claim.fingerprint.0);
    let (partition, offset) = (claim.at.partition, claim.at.offset);
    Some([
        "SET LOCAL lock_timeout = 20".to_owned(),
        format!(
            "EXECUTE idempotent_jobs_claim \
             ({job}, {key}, E'\\\\x{fingerprint}', {scheme}, {group}, {topic}, {partition}, {offset})"
        ),
        format!("SET LOCAL {}", limits(terms.timeout)[0]),
    ])
}

/// A text that reads the same whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The row that holds the key.
pub(super) async fn look(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
    let row = sqlx::query(
        "SELECT fingerprint, scheme, \"group\", topic, partition, \"offset\", state = 'dead' \
         FROM idempotent_jobs.processed WHERE job = $1 AND key = $2",
    )
    .bind(claim.job)
    .bind(claim.key.stored())
    .fetch_optional(conn)
    .await?;
    row.map(stored).transpose()
}

/// What [`look`] selects.
pub(super) fn stored(row: PgRow) -> Result<Stored, Error> {
    Ok(Stored {
        fingerprint: row.try_get(0)?,
        scheme: row.try_get(1)?,
        group: row.try_get(2)?,
        topic: row.try_get(3)?,
        partition: row.try_get(4)?,
        offset: row.try_get(5)?,
        dead: row.try_get(6)?,
    })
}
