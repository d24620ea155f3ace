//! The `parked` table.

use std::time::SystemTime;

use sqlx::{Error, PgConnection, Postgres};

use crate::message::Coordinates;
use crate::store::letters::{Death, digest, instant};
use crate::store::parked::{Held, ParkSql, ParkedLane};

/// How long a lane is waited for that somebody parks a message in. Who runs its head has it longer.
const PATIENCE: &str = "200";

type Row = (String, String, String, i32, i64, bool, Option<Vec<u8>>, i32, i64, Option<i64>);

/// Lanes as [`lane`] reads them.
macro_rules! lanes {
    () => {
        "SELECT p.job, p.\"group\", p.topic, p.partition, p.head, d.state = 'requested', d.message_key, p.waiting, \
         (extract(epoch FROM p.since) * 1000)::bigint, (extract(epoch FROM p.full_since) * 1000)::bigint \
         FROM idempotent_jobs.parked p JOIN idempotent_jobs.dead_letters d ON d.id = p.head "
    };
}

/// So many lanes: full ones first, then by age.
pub(super) async fn pressing(conn: &mut PgConnection, limit: i64) -> Result<Vec<ParkedLane>, Error> {
    let rows: Vec<Row> = sqlx::query_as(concat!(lanes!(), "ORDER BY p.full_since IS NULL, p.id LIMIT $1"))
        .bind(limit)
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(lane).collect())
}

impl ParkSql for Postgres {
    async fn make_lane(conn: &mut PgConnection, death: &Death<'_>, lane: &[u8; 32]) -> Result<Option<i64>, Error> {
        let at = &death.message.coordinates;
        sqlx::query_scalar(
            "INSERT INTO idempotent_jobs.parked (\"group\", topic, partition, job, lane) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (\"group\", topic, partition, job, lane) DO NOTHING RETURNING id",
        )
        .bind(death.group)
        .bind(&*at.topic)
        .bind(at.partition)
        .bind(death.job)
        .bind(&lane[..])
        .fetch_optional(conn)
        .await
    }

    async fn hold_lane(
        conn: &mut PgConnection,
        group: &str,
        job: &str,
        at: &Coordinates,
        lane: &[u8; 32],
    ) -> Result<Option<Held>, Error> {
        let row = sqlx::query_as(
            "SELECT id, head, waiting::bigint FROM idempotent_jobs.parked \
             WHERE \"group\" = $1 AND topic = $2 AND partition = $3 AND job = $4 AND lane = $5 FOR UPDATE",
        )
        .bind(group)
        .bind(&*at.topic)
        .bind(at.partition)
        .bind(job)
        .bind(&lane[..])
        .fetch_optional(conn)
        .await?;
        Ok(row.map(held))
    }

    async fn hold_lane_of(conn: &mut PgConnection, letter: i64) -> Result<Option<Held>, Error> {
        let row = sqlx::query_as(
            "SELECT id, head, waiting::bigint FROM idempotent_jobs.parked \
             WHERE id = (SELECT lane FROM idempotent_jobs.dead_letters WHERE id = $1) FOR UPDATE",
        )
        .bind(letter)
        .fetch_optional(conn)
        .await?;
        Ok(row.map(held))
    }

    // The limit is the transaction's own again before its handler is entered.
    async fn try_lane_of(conn: &mut PgConnection, letter: i64) -> Result<Option<Held>, Error> {
        let usual: Option<String> = sqlx::query_scalar(
            "SELECT pg_catalog.current_setting('lock_timeout') FROM idempotent_jobs.dead_letters d \
             JOIN idempotent_jobs.parked p ON p.id = d.lane WHERE d.id = $1",
        )
        .bind(letter)
        .fetch_optional(&mut *conn)
        .await?;
        let Some(usual) = usual else { return Ok(None) };
        limit(conn, PATIENCE).await?;
        let lane = Self::hold_lane_of(conn, letter).await?;
        limit(conn, &usual).await?;
        Ok(lane)
    }

    async fn letter_of(conn: &mut PgConnection, death: &Death<'_>) -> Result<i64, Error> {
        if let Some(claim) = &death.claim {
            return sqlx::query_scalar(
                "SELECT id FROM idempotent_jobs.dead_letters WHERE job = $1 AND key = $2 AND fingerprint = $3",
            )
            .bind(claim.job)
            .bind(claim.key.stored())
            .bind(&claim.fingerprint.0[..])
            .fetch_one(conn)
            .await;
        }
        let at = &death.message.coordinates;
        sqlx::query_scalar(
            "SELECT id FROM idempotent_jobs.dead_letters WHERE key IS NULL AND \"group\" = $1 AND topic = $2 \
             AND partition = $3 AND \"offset\" = $4 AND digest = $5 AND COALESCE(job, '') = COALESCE($6, '')",
        )
        .bind(death.group)
        .bind(&*at.topic)
        .bind(at.partition)
        .bind(at.offset)
        .bind(digest(death.message).to_vec())
        .bind(death.job)
        .fetch_one(conn)
        .await
    }

    async fn lead(conn: &mut PgConnection, lane: i64, letter: i64) -> Result<(), Error> {
        sqlx::query(
            "WITH p AS (UPDATE idempotent_jobs.parked SET head = $2, last = 1 WHERE id = $1) \
             UPDATE idempotent_jobs.dead_letters SET lane = $1, place = 1 WHERE id = $2",
        )
        .bind(lane)
        .bind(letter)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn enqueue_letter(conn: &mut PgConnection, lane: i64, letter: i64) -> Result<(), Error> {
        sqlx::query(
            "WITH p AS (UPDATE idempotent_jobs.parked SET last = last + 1, waiting = waiting + 1 WHERE id = $1 \
             RETURNING last) \
             UPDATE idempotent_jobs.dead_letters SET lane = $1, place = p.last, state = 'parked' FROM p WHERE id = $2",
        )
        .bind(lane)
        .bind(letter)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn fill(conn: &mut PgConnection, lane: i64) -> Result<(), Error> {
        sqlx::query(
            "UPDATE idempotent_jobs.parked SET full_since = pg_catalog.now() WHERE id = $1 AND full_since IS NULL",
        )
        .bind(lane)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn first_parked(conn: &mut PgConnection, lane: i64) -> Result<Option<i64>, Error> {
        sqlx::query_scalar(
            "SELECT id FROM idempotent_jobs.dead_letters WHERE lane = $1 AND state = 'parked' ORDER BY place LIMIT 1",
        )
        .bind(lane)
        .fetch_optional(conn)
        .await
    }

    async fn shorten(conn: &mut PgConnection, lane: i64, head: i64) -> Result<(), Error> {
        sqlx::query(
            "UPDATE idempotent_jobs.parked SET head = $2, waiting = waiting - 1, full_since = NULL WHERE id = $1",
        )
        .bind(lane)
        .bind(head)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn drop_lane(conn: &mut PgConnection, lane: i64) -> Result<(), Error> {
        sqlx::query("DELETE FROM idempotent_jobs.parked WHERE id = $1").bind(lane).execute(conn).await.map(drop)
    }

    async fn part(conn: &mut PgConnection, letter: i64) -> Result<(), Error> {
        sqlx::query("UPDATE idempotent_jobs.dead_letters SET lane = NULL, place = NULL WHERE id = $1")
            .bind(letter)
            .execute(conn)
            .await
            .map(drop)
    }

    async fn lanes_of(conn: &mut PgConnection, group: &str, at: &Coordinates) -> Result<Vec<(String, Vec<u8>)>, Error> {
        sqlx::query_as(
            "SELECT job, lane FROM idempotent_jobs.parked WHERE \"group\" = $1 AND topic = $2 AND partition = $3",
        )
        .bind(group)
        .bind(&*at.topic)
        .bind(at.partition)
        .fetch_all(conn)
        .await
    }

    async fn lanes(conn: &mut PgConnection) -> Result<Vec<ParkedLane>, Error> {
        let rows: Vec<Row> = sqlx::query_as(concat!(lanes!(), "ORDER BY p.id")).fetch_all(conn).await?;
        Ok(rows.into_iter().map(lane).collect())
    }

    async fn head_of(conn: &mut PgConnection, letter: i64) -> Result<Option<i64>, Error> {
        sqlx::query_scalar(
            "SELECT p.head FROM idempotent_jobs.parked p JOIN idempotent_jobs.dead_letters d ON d.lane = p.id \
             WHERE d.id = $1 AND d.state = 'parked'",
        )
        .bind(letter)
        .fetch_optional(conn)
        .await
    }
}

async fn limit(conn: &mut PgConnection, lock_timeout: &str) -> Result<(), Error> {
    sqlx::query("SELECT pg_catalog.set_config('lock_timeout', $1, true)")
        .bind(lock_timeout)
        .execute(conn)
        .await
        .map(drop)
}

fn held((id, head, waiting): (i64, i64, i64)) -> Held {
    Held { id, head, waiting }
}

fn lane((job, group, topic, partition, head, head_requested, key, waiting, since, full_since): Row) -> ParkedLane {
    let waiting = u32::try_from(waiting).unwrap_or(0);
    let (since, full_since): (SystemTime, _) = (instant(since), full_since.map(instant));
    ParkedLane { job, group, topic, partition, head, head_requested, key, waiting, since, full_since }
}
