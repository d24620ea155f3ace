//! The `dead_letters` table.

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Error, Row, Sqlite, SqliteConnection};

use super::claim::{BindClaim, look};
use crate::error::Reason;
use crate::key::hex;
use crate::message::{Coordinates, Headers, Message};
use crate::store::Claim;
use crate::store::letters::{
    Again, Change, DeadLetter, Death, Filter, LetterSql, LetterState, PAGE, Requested, Standing, Unkeyed, cleaned,
    digest, instant, state,
};
use crate::store::outcome::Stored;

const COLUMNS: &str = "id, job, \"group\", topic, \"partition\", \"offset\", message_key, payload, headers, \
     \"timestamp\", COALESCE(long_key, key), fingerprint, scheme, reason, error, attempts, state, \
     CAST(strftime('%s', died_at) AS INTEGER) * 1000 + CAST(substr(strftime('%f', died_at), 4) AS INTEGER), \
     CAST(strftime('%s', changed_at) AS INTEGER) * 1000 + CAST(substr(strftime('%f', changed_at), 4) AS INTEGER), \
     changed_by";

const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

impl LetterSql for Sqlite {
    async fn insert_dead(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO main.idempotent_jobs_processed \
             (job, key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\", state) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'dead') ON CONFLICT (job, key) DO NOTHING",
        )
        .bind_claim(claim)
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    // No statement writes two tables here: who opens one again notes it by itself.
    async fn write(conn: &mut SqliteConnection, death: &Death<'_>) -> Result<bool, Error> {
        let target = match death.claim {
            Some(_) => "(job, key, fingerprint) WHERE key IS NOT NULL",
            None => "(\"group\", topic, \"partition\", \"offset\", digest, COALESCE(job, '')) WHERE key IS NULL",
        };
        let sql = format!(
            "INSERT INTO main.idempotent_jobs_dead_letters AS d \
             (job, \"group\", topic, \"partition\", \"offset\", digest, message_key, payload, headers, \
             \"timestamp\", key, long_key, fingerprint, scheme, reason, error, attempts) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) \
             ON CONFLICT {target} DO UPDATE SET \"group\" = excluded.\"group\", topic = excluded.topic, \
             \"partition\" = excluded.\"partition\", \"offset\" = excluded.\"offset\", digest = excluded.digest, \
             message_key = excluded.message_key, payload = excluded.payload, headers = excluded.headers, \
             \"timestamp\" = excluded.\"timestamp\", scheme = excluded.scheme, state = 'open', reason = excluded.reason, error = excluded.error, \
             attempts = excluded.attempts, lane = NULL, place = NULL, changed_at = {NOW}, changed_by = NULL \
             WHERE d.state = 'redriven' \
             RETURNING id, changed_at > died_at"
        );
        let Death { message, claim, .. } = death;
        let at = &message.coordinates;
        let key = claim.map(|claim| claim.key.stored().into_owned());
        let long_key = claim.map(|claim| claim.key.as_str()).filter(|whole| key.as_deref() != Some(whole));
        let error = cleaned(death.error);
        let written: Option<(i64, bool)> = sqlx::query_as(AssertSqlSafe(sql))
            .bind(death.job)
            .bind(death.group)
            .bind(&*at.topic)
            .bind(at.partition)
            .bind(at.offset)
            .bind(digest(message).to_vec())
            .bind(message.key.as_deref())
            .bind(message.payload.as_deref())
            .bind(written(&message.headers))
            .bind(message.timestamp)
            .bind(&key)
            .bind(long_key)
            .bind(claim.map(|claim| claim.fingerprint.0.to_vec()))
            .bind(claim.map(|claim| claim.scheme))
            .bind(death.reason.as_str())
            .bind(&error)
            .bind(i64::from(death.attempts))
            .fetch_optional(&mut *conn)
            .await?;
        if let Some((id, true)) = written {
            let again = if death.reason == Reason::Parked { LetterState::Parked } else { LetterState::Open };
            note(conn, id, again, None, Some(&format!("{}: {error}", death.reason))).await?;
        }
        Ok(written.is_some())
    }

    async fn unkeyed(conn: &mut SqliteConnection, group: &str, from: &Coordinates) -> Result<Vec<Unkeyed>, Error> {
        let rows: Vec<(i64, Option<String>, Vec<u8>)> = sqlx::query_as(
            "SELECT \"offset\", job, digest FROM main.idempotent_jobs_dead_letters WHERE key IS NULL AND (state <> 'redriven' OR job IS NOT NULL) \
             AND \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND \"offset\" >= $4",
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
        conn: &mut SqliteConnection,
        after: i64,
        group: &str,
        jobs: &[&str],
        topics: &[&str],
    ) -> Result<Vec<Requested>, Error> {
        let rows: Vec<(i64, Option<String>, String)> = sqlx::query_as(
            "SELECT id, job, topic FROM main.idempotent_jobs_dead_letters AS d WHERE state = 'requested' \
             AND NOT EXISTS (SELECT 1 FROM main.idempotent_jobs_redrives AS r WHERE r.letter = d.id \
             AND r.due_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)) \
             AND ((job, topic) IN (SELECT j.value, t.value FROM json_each($1) AS j JOIN json_each($2) AS t ON t.key = j.key) \
             OR job IS NULL AND topic IN (SELECT value FROM json_each($2)) AND \"group\" = $5) \
             AND id > $3 ORDER BY id LIMIT $4",
        )
        .bind(json(&jobs))
        .bind(json(&topics))
        .bind(after)
        .bind(PAGE as i64)
        .bind(group)
        .fetch_all(conn)
        .await?;
        Ok(rows.into_iter().map(|(id, job, topic)| Requested { id, job, topic }).collect())
    }

    // The transaction holds the write lock: nobody else has it.
    async fn take(conn: &mut SqliteConnection, id: i64) -> Result<Option<DeadLetter>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM main.idempotent_jobs_dead_letters WHERE id = $1 AND state = 'requested'");
        sqlx::query(AssertSqlSafe(sql)).bind(id).fetch_optional(conn).await?.map(letter).transpose()
    }

    async fn hold(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
        look(conn, claim).await
    }

    async fn is_undecided(conn: &mut SqliteConnection, claim: &Claim<'_>, fingerprint: &[u8]) -> Result<bool, Error> {
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM main.idempotent_jobs_dead_letters \
             WHERE job = $1 AND key = $2 AND fingerprint = $3 AND state <> 'skipped')",
        )
        .bind(claim.job)
        .bind(claim.key.stored().into_owned())
        .bind(fingerprint)
        .fetch_one(conn)
        .await
    }

    async fn take_over(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<(), Error> {
        let sql = format!(
            "UPDATE main.idempotent_jobs_processed SET state = 'done', fingerprint = $3, scheme = $4, \"group\" = $5, \
             topic = $6, \"partition\" = $7, \"offset\" = $8, processed_at = {NOW} WHERE job = $1 AND key = $2"
        );
        sqlx::query(AssertSqlSafe(sql)).bind_claim(claim).execute(conn).await.map(drop)
    }

    async fn change_letter(
        conn: &mut SqliteConnection,
        id: i64,
        from: &[LetterState],
        to: LetterState,
        by: Option<&str>,
        detail: Option<&str>,
    ) -> Result<bool, Error> {
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let sql = format!(
            "UPDATE main.idempotent_jobs_dead_letters SET state = $3, changed_at = {NOW}, changed_by = $4 \
             WHERE id = $1 AND state IN (SELECT value FROM json_each($2))"
        );
        let by = by.map(cleaned);
        let changed = sqlx::query(AssertSqlSafe(sql))
            .bind(id)
            .bind(json(&from))
            .bind(to.as_str())
            .bind(&by)
            .execute(&mut *conn)
            .await?;
        if changed.rows_affected() == 1 {
            note(conn, id, to, by.as_deref(), detail).await?;
        }
        Ok(changed.rows_affected() == 1)
    }

    async fn died(conn: &mut SqliteConnection, id: i64, again: &Again<'_>) -> Result<(), Error> {
        sqlx::query(
            "UPDATE main.idempotent_jobs_dead_letters SET reason = $2, error = $3, attempts = attempts + $4 WHERE id = $1",
        )
        .bind(id)
        .bind(again.rejection.reason.as_str())
        .bind(cleaned(&again.rejection.detail))
        .bind(i32::try_from(again.attempts).unwrap_or(i32::MAX))
        .execute(conn)
        .await
        .map(drop)
    }

    async fn key_letter(conn: &mut SqliteConnection, id: i64, claim: &Claim<'_>) -> Result<(), Error> {
        let (key, whole) = (claim.key.stored().into_owned(), claim.key.as_str());
        sqlx::query(
            "UPDATE main.idempotent_jobs_dead_letters SET key = $2, long_key = $3, fingerprint = $4, scheme = $5 \
             WHERE id = $1 AND key IS NULL AND NOT EXISTS (SELECT 1 FROM main.idempotent_jobs_dead_letters \
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

    async fn list(conn: &mut SqliteConnection, filter: &Filter) -> Result<Vec<DeadLetter>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM main.idempotent_jobs_dead_letters \
             WHERE ($1 IS NULL OR id IN (SELECT value FROM json_each($1))) AND ($2 IS NULL OR job = $2) \
             AND ($3 IS NULL OR topic = $3) AND ($4 IS NULL OR reason = $4) \
             AND ($5 IS NULL OR COALESCE(long_key, key) = $5) AND ($6 IS NULL OR state = $6) \
             AND ($7 IS NULL OR died_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || $7 || ' seconds')) \
             AND ($8 IS NULL OR died_at >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || $8 || ' seconds')) \
             AND id > $9 ORDER BY id LIMIT $10"
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(filter.ids.as_ref().map(json))
            .bind(&filter.job)
            .bind(&filter.topic)
            .bind(&filter.reason)
            .bind(&filter.key)
            .bind(filter.state.map(LetterState::as_str))
            .bind(filter.older.map(|age| age.as_secs_f64()))
            .bind(filter.younger.map(|age| age.as_secs_f64()))
            .bind(filter.after)
            .bind(filter.limit.map_or(-1, i64::from))
            .fetch_all(conn)
            .await?;
        rows.into_iter().map(letter).collect()
    }

    async fn history(conn: &mut SqliteConnection, id: i64) -> Result<Vec<Change>, Error> {
        let rows: Vec<(String, i64, Option<String>, Option<String>)> = sqlx::query_as(
            "SELECT state, CAST(strftime('%s', at) AS INTEGER) * 1000 + CAST(substr(strftime('%f', at), 4) AS INTEGER), \
             \"by\", detail FROM main.idempotent_jobs_dead_letter_history WHERE letter = $1 ORDER BY id",
        )
        .bind(id)
        .fetch_all(conn)
        .await?;
        rows.into_iter()
            .map(|(word, at, by, detail)| Ok(Change { state: state(&word)?, at: instant(at), by, detail }))
            .collect()
    }

    async fn standings(conn: &mut SqliteConnection, ids: &[i64]) -> Result<Vec<Standing>, Error> {
        let rows: Vec<(i64, String, String, String)> = sqlx::query_as(
            "SELECT id, state, reason, error FROM main.idempotent_jobs_dead_letters \
             WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id",
        )
        .bind(json(&ids))
        .fetch_all(conn)
        .await?;
        let standing =
            |(id, word, reason, error): (_, String, _, _)| Ok(Standing { id, state: state(&word)?, reason, error });
        rows.into_iter().map(standing).collect()
    }
}

async fn note(
    conn: &mut SqliteConnection,
    id: i64,
    state: LetterState,
    by: Option<&str>,
    detail: Option<&str>,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO main.idempotent_jobs_dead_letter_history (letter, state, \"by\", detail) \
         SELECT id, $2, $3, COALESCE($4, CASE WHEN $2 = 'requested' AND NOT EXISTS \
         (SELECT 1 FROM main.idempotent_jobs_dead_letter_history AS e WHERE e.letter = d.id AND e.state IN ('open', 'requested')) \
         AND reason <> 'parked' THEN 'had died: ' || reason || ': ' || error END) FROM main.idempotent_jobs_dead_letters AS d WHERE id = $1",
    )
    .bind(id)
    .bind(state.as_str())
    .bind(by)
    .bind(detail.map(cleaned))
    .execute(conn)
    .await
    .map(drop)
}

fn json(list: &impl serde::Serialize) -> String {
    serde_json::to_string(list).expect("texts and numbers are JSON")
}

/// `[["traceparent","3030"],["gone",null]]`: values in hex, since they need not be text.
fn written(headers: &Headers) -> String {
    let pairs: Vec<(&str, Option<String>)> = headers.iter().map(|(name, value)| (name, value.map(hex))).collect();
    json(&pairs)
}

fn read(headers: &str) -> Result<Headers, Error> {
    let pairs: Vec<(String, Option<String>)> =
        serde_json::from_str(headers).map_err(|error| Error::Decode(Box::new(error)))?;
    let bytes = |hex: String| -> Option<Vec<u8>> {
        hex.as_bytes().chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok()).collect()
    };
    let unhex = |(name, value): (String, Option<String>)| match value.map(bytes) {
        Some(None) => Err(Error::Decode("a header of a dead letter is not in hex".into())),
        Some(value @ Some(_)) => Ok((name, value)),
        None => Ok((name, None)),
    };
    Ok(Headers::new(pairs.into_iter().map(unhex).collect::<Result<_, _>>()?))
}

fn letter(row: SqliteRow) -> Result<DeadLetter, Error> {
    let message = Message {
        coordinates: Coordinates {
            topic: row.try_get::<String, _>(3)?.into(),
            partition: row.try_get(4)?,
            offset: row.try_get(5)?,
        },
        key: row.try_get(6)?,
        payload: row.try_get(7)?,
        headers: read(&row.try_get::<String, _>(8)?)?,
        timestamp: row.try_get(9)?,
    };
    Ok(DeadLetter {
        id: row.try_get(0)?,
        job: row.try_get(1)?,
        group: row.try_get(2)?,
        message,
        key: row.try_get(10)?,
        fingerprint: row.try_get(11)?,
        scheme: row.try_get(12)?,
        reason: row.try_get(13)?,
        error: row.try_get(14)?,
        attempts: u32::try_from(row.try_get::<i64, _>(15)?).unwrap_or(0),
        state: state(&row.try_get::<String, _>(16)?)?,
        died_at: instant(row.try_get(17)?),
        changed_at: instant(row.try_get(18)?),
        changed_by: row.try_get(19)?,
    })
}
