//! The `dead_letters` table.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Error, PgConnection, Postgres, Row};

use super::claim::{BindClaim, stored};
use crate::message::{Coordinates, Headers, Message};
use crate::store::Claim;
use crate::store::letters::{
    Again, Change, DeadLetter, Death, Filter, LetterSql, LetterState, PAGE, Requested, Standing, Unkeyed, cleaned,
    digest, instant, state,
};
use crate::store::outcome::Stored;

const COLUMNS: &str = "id, job, \"group\", topic, partition, \"offset\", message_key, payload, header_names, \
     header_values, \"timestamp\", COALESCE(long_key, key), fingerprint, scheme, reason, error, attempts, state, \
     (extract(epoch FROM died_at) * 1000)::bigint, (extract(epoch FROM changed_at) * 1000)::bigint, changed_by";

/// What dies under the key of a redriven one, after its claim was purged, is the same dead letter with its history. The
/// message may be another: what is compared is the same, or all of it.
macro_rules! write {
    ($target:literal) => {
        concat!(
            "WITH w AS (INSERT INTO idempotent_jobs.dead_letters AS d \
             (job, \"group\", topic, partition, \"offset\", digest, message_key, payload, header_names, header_values, \
             \"timestamp\", key, long_key, fingerprint, scheme, reason, error, attempts) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
             ON CONFLICT ",
            $target,
            " DO UPDATE SET \"group\" = EXCLUDED.\"group\", topic = EXCLUDED.topic, partition = EXCLUDED.partition, \
             \"offset\" = EXCLUDED.\"offset\", digest = EXCLUDED.digest, message_key = EXCLUDED.message_key, \
             payload = EXCLUDED.payload, header_names = EXCLUDED.header_names, header_values = EXCLUDED.header_values, \
             \"timestamp\" = EXCLUDED.\"timestamp\", scheme = EXCLUDED.scheme, \
             state = 'open', reason = EXCLUDED.reason, error = EXCLUDED.error, \
             attempts = EXCLUDED.attempts, lane = NULL, place = NULL, \
             changed_at = pg_catalog.now(), changed_by = NULL WHERE d.state = 'redriven' \
             RETURNING d.id, d.died_at < d.changed_at AS again), \
             h AS (INSERT INTO idempotent_jobs.dead_letter_history (letter, state, detail) \
             SELECT id, CASE $16 WHEN 'parked' THEN $16 ELSE 'open' END, $16 || ': ' || $17 FROM w WHERE again) \
             SELECT count(*) FROM w"
        )
    };
}

impl LetterSql for Postgres {
    async fn insert_dead(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO idempotent_jobs.processed \
             (job, key, state, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
             VALUES ($1, $2, 'dead', $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING",
        )
        .bind_claim(claim)
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn write(conn: &mut PgConnection, death: &Death<'_>) -> Result<bool, Error> {
        let sql = match death.claim {
            Some(_) => write!("(job, key, fingerprint) WHERE key IS NOT NULL"),
            None => {
                write!("(\"group\", topic, partition, \"offset\", digest, (COALESCE(job, ''))) WHERE key IS NULL")
            }
        };
        let Death { message, claim, .. } = death;
        let at = &message.coordinates;
        let (names, values): (Vec<&str>, Vec<Option<&[u8]>>) = message.headers.iter().unzip();
        let key = claim.map(|claim| claim.key.stored().into_owned());
        let long_key = claim.map(|claim| claim.key.as_str()).filter(|whole| key.as_deref() != Some(whole));
        let written: i64 = sqlx::query_scalar(sql)
            .bind(death.job)
            .bind(death.group)
            .bind(&*at.topic)
            .bind(at.partition)
            .bind(at.offset)
            .bind(digest(message).to_vec())
            .bind(message.key.as_deref())
            .bind(message.payload.as_deref())
            .bind(names)
            .bind(values)
            .bind(message.timestamp)
            .bind(&key)
            .bind(long_key)
            .bind(claim.map(|claim| claim.fingerprint.0.to_vec()))
            .bind(claim.map(|claim| claim.scheme))
            .bind(death.reason.as_str())
            .bind(cleaned(death.error))
            .bind(i32::try_from(death.attempts).unwrap_or(i32::MAX))
            .fetch_one(conn)
            .await?;
        Ok(written == 1)
    }

    async fn unkeyed(conn: &mut PgConnection, group: &str, from: &Coordinates) -> Result<Vec<Unkeyed>, Error> {
        let rows: Vec<(i64, Option<String>, Vec<u8>)> = sqlx::query_as(
            "SELECT \"offset\", job, digest FROM idempotent_jobs.dead_letters WHERE key IS NULL AND (state <> 'redriven' OR job IS NOT NULL) \
             AND \"group\" = $1 AND topic = $2 AND partition = $3 AND \"offset\" >= $4",
        )
        .bind(group)
        .bind(&*from.topic)
        .bind(from.partition)
        .bind(from.offset)
        .fetch_all(conn)
        .await?;
        Ok(rows.into_iter().map(|(offset, job, digest)| Unkeyed { offset, job, digest }).collect())
    }

    async fn requested(
        conn: &mut PgConnection,
        after: i64,
        group: &str,
        jobs: &[&str],
        topics: &[&str],
    ) -> Result<Vec<Requested>, Error> {
        let rows: Vec<(i64, Option<String>, String)> = sqlx::query_as(
            "SELECT d.id, d.job, d.topic FROM unnest($1::text[], $2::text[]) AS mine (job, topic) CROSS JOIN LATERAL \
             (SELECT id, job, topic FROM idempotent_jobs.dead_letters AS l WHERE l.state = 'requested' \
             AND l.job = mine.job AND l.topic = mine.topic AND l.id > $3 AND NOT EXISTS (SELECT FROM idempotent_jobs.redrives AS r \
             WHERE r.letter = l.id AND r.due_at > pg_catalog.clock_timestamp()) ORDER BY l.id LIMIT $4) AS d \
             UNION ALL \
             SELECT d.id, d.job, d.topic FROM (SELECT DISTINCT unnest($2::text[])) AS mine (topic) CROSS JOIN LATERAL \
             (SELECT id, job, topic FROM idempotent_jobs.dead_letters AS l WHERE l.state = 'requested' \
             AND l.job IS NULL AND l.topic = mine.topic AND l.\"group\" = $5 AND l.id > $3 AND NOT EXISTS (SELECT FROM idempotent_jobs.redrives AS r \
             WHERE r.letter = l.id AND r.due_at > pg_catalog.clock_timestamp()) ORDER BY l.id LIMIT $4) AS d \
             ORDER BY id LIMIT $4",
        )
        .bind(jobs)
        .bind(topics)
        .bind(after)
        .bind(PAGE as i64)
        .bind(group)
        .fetch_all(conn)
        .await?;
        Ok(rows.into_iter().map(|(id, job, topic)| Requested { id, job, topic }).collect())
    }

    async fn take(conn: &mut PgConnection, id: i64) -> Result<Option<DeadLetter>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM idempotent_jobs.dead_letters WHERE id = $1 AND state = 'requested' FOR UPDATE SKIP LOCKED"
        );
        sqlx::query(AssertSqlSafe(sql)).bind(id).fetch_optional(conn).await?.map(letter).transpose()
    }

    async fn hold(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
        let row = sqlx::query(
            "SELECT fingerprint, scheme, \"group\", topic, partition, \"offset\", state = 'dead' \
             FROM idempotent_jobs.processed WHERE job = $1 AND key = $2 FOR UPDATE",
        )
        .bind(claim.job)
        .bind(claim.key.stored())
        .fetch_optional(conn)
        .await?;
        row.map(stored).transpose()
    }

    async fn is_undecided(conn: &mut PgConnection, claim: &Claim<'_>, fingerprint: &[u8]) -> Result<bool, Error> {
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM idempotent_jobs.dead_letters \
             WHERE job = $1 AND key = $2 AND fingerprint = $3 AND state <> 'skipped')",
        )
        .bind(claim.job)
        .bind(claim.key.stored())
        .bind(fingerprint)
        .fetch_one(conn)
        .await
    }

    async fn take_over(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<(), Error> {
        sqlx::query(
            "UPDATE idempotent_jobs.processed SET state = 'done', fingerprint = $3, scheme = $4, \"group\" = $5, topic = $6, \
             partition = $7, \"offset\" = $8, processed_at = pg_catalog.now() WHERE job = $1 AND key = $2",
        )
        .bind_claim(claim)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn change_letter(
        conn: &mut PgConnection,
        id: i64,
        from: &[LetterState],
        to: LetterState,
        by: Option<&str>,
        detail: Option<&str>,
    ) -> Result<bool, Error> {
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let changed: i64 = sqlx::query_scalar(
            "WITH c AS (UPDATE idempotent_jobs.dead_letters SET state = $3, changed_at = pg_catalog.now(), changed_by = $4 \
             WHERE id = $1 AND state = ANY ($2) RETURNING id, reason, error), \
             h AS (INSERT INTO idempotent_jobs.dead_letter_history (letter, state, by, detail) \
             SELECT id, $3, $4, COALESCE($5, CASE WHEN $3 = 'requested' AND NOT EXISTS \
             (SELECT FROM idempotent_jobs.dead_letter_history AS e WHERE e.letter = c.id AND e.state IN ('open', 'requested')) \
             AND reason <> 'parked' THEN 'had died: ' || reason || ': ' || error END) FROM c) SELECT count(*) FROM c",
        )
        .bind(id)
        .bind(from)
        .bind(to.as_str())
        .bind(by.map(cleaned))
        .bind(detail.map(cleaned))
        .fetch_one(conn)
        .await?;
        Ok(changed == 1)
    }

    async fn died(conn: &mut PgConnection, id: i64, again: &Again<'_>) -> Result<(), Error> {
        sqlx::query(
            "UPDATE idempotent_jobs.dead_letters SET reason = $2, error = $3, attempts = attempts + $4 WHERE id = $1",
        )
        .bind(id)
        .bind(again.rejection.reason.as_str())
        .bind(cleaned(&again.rejection.detail))
        .bind(i32::try_from(again.attempts).unwrap_or(i32::MAX))
        .execute(conn)
        .await
        .map(drop)
    }

    async fn key_letter(conn: &mut PgConnection, id: i64, claim: &Claim<'_>) -> Result<(), Error> {
        let (key, whole) = (claim.key.stored().into_owned(), claim.key.as_str());
        sqlx::query(
            "UPDATE idempotent_jobs.dead_letters SET key = $2, long_key = $3, fingerprint = $4, scheme = $5 \
             WHERE id = $1 AND key IS NULL AND NOT EXISTS (SELECT 1 FROM idempotent_jobs.dead_letters \
             WHERE job = $6 AND key = $2 AND fingerprint = $4)",
        )
        .bind(id)
        .bind(&key)
        .bind((key != whole).then_some(whole))
        .bind(claim.fingerprint.0.to_vec())
        .bind(claim.scheme)
        .bind(claim.job)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn list(conn: &mut PgConnection, filter: &Filter) -> Result<Vec<DeadLetter>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM idempotent_jobs.dead_letters \
             WHERE ($1::bigint[] IS NULL OR id = ANY ($1)) AND ($2::text IS NULL OR job = $2) \
             AND ($3::text IS NULL OR topic = $3) AND ($4::text IS NULL OR reason = $4) \
             AND ($5::text IS NULL OR COALESCE(long_key, key) = $5) AND ($6::text IS NULL OR state = $6) \
             AND ($7::float8 IS NULL OR died_at < pg_catalog.now() - $7 * interval '1 second') \
             AND ($8::float8 IS NULL OR died_at >= pg_catalog.now() - $8 * interval '1 second') \
             AND id > $9 ORDER BY id LIMIT $10"
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(&filter.ids)
            .bind(&filter.job)
            .bind(&filter.topic)
            .bind(&filter.reason)
            .bind(&filter.key)
            .bind(filter.state.map(LetterState::as_str))
            .bind(filter.older.map(|age| age.as_secs_f64()))
            .bind(filter.younger.map(|age| age.as_secs_f64()))
            .bind(filter.after)
            .bind(filter.limit.map(i64::from))
            .fetch_all(conn)
            .await?;
        rows.into_iter().map(letter).collect()
    }

    async fn history(conn: &mut PgConnection, id: i64) -> Result<Vec<Change>, Error> {
        let rows: Vec<(String, i64, Option<String>, Option<String>)> = sqlx::query_as(
            "SELECT state, (extract(epoch FROM at) * 1000)::bigint, by, detail FROM idempotent_jobs.dead_letter_history \
             WHERE letter = $1 ORDER BY id",
        )
        .bind(id)
        .fetch_all(conn)
        .await?;
        rows.into_iter()
            .map(|(word, at, by, detail)| Ok(Change { state: state(&word)?, at: instant(at), by, detail }))
            .collect()
    }

    async fn standings(conn: &mut PgConnection, ids: &[i64]) -> Result<Vec<Standing>, Error> {
        let rows: Vec<(i64, String, String, String)> = sqlx::query_as(
            "SELECT id, state, reason, error FROM idempotent_jobs.dead_letters WHERE id = ANY ($1) ORDER BY id",
        )
        .bind(ids)
        .fetch_all(conn)
        .await?;
        let standing =
            |(id, word, reason, error): (_, String, _, _)| Ok(Standing { id, state: state(&word)?, reason, error });
        rows.into_iter().map(standing).collect()
    }
}

fn letter(row: PgRow) -> Result<DeadLetter, Error> {
    let (names, values): (Vec<String>, Vec<Option<Vec<u8>>>) = (row.try_get(8)?, row.try_get(9)?);
    let message = Message {
        coordinates: Coordinates {
            topic: row.try_get::<String, _>(3)?.into(),
            partition: row.try_get(4)?,
            offset: row.try_get(5)?,
        },
        key: row.try_get(6)?,
        payload: row.try_get(7)?,
        headers: Headers::new(names.into_iter().zip(values).collect()),
        timestamp: row.try_get(10)?,
    };
    Ok(DeadLetter {
        id: row.try_get(0)?,
        job: row.try_get(1)?,
        group: row.try_get(2)?,
        message,
        key: row.try_get(11)?,
        fingerprint: row.try_get(12)?,
        scheme: row.try_get(13)?,
        reason: row.try_get(14)?,
        error: row.try_get(15)?,
        attempts: u32::try_from(row.try_get::<i32, _>(16)?).unwrap_or(0),
        state: state(&row.try_get::<String, _>(17)?)?,
        died_at: instant(row.try_get(18)?),
        changed_at: instant(row.try_get(19)?),
        changed_by: row.try_get(20)?,
    })
}
