//! The `attempts` and `owners` tables.

use std::time::Duration;

use sqlx::{Error, PgConnection, Postgres};

use crate::message::Coordinates;
use crate::store::attempts::{AttemptSql, Attempted, Found, NotedRun, Redrive, Redriven, Taking, Tried, Waits};
use crate::store::letters::cleaned;

/// Topics, partitions and first offsets, as arrays side by side.
fn columns<'a>(takings: &[Taking<'a>]) -> (Vec<&'a str>, Vec<i32>, Vec<i64>) {
    let topics = takings.iter().map(|taking| &*taking.from.topic).collect();
    let partitions = takings.iter().map(|taking| taking.from.partition).collect();
    (topics, partitions, takings.iter().map(|taking| taking.from.offset).collect())
}

fn owners<'a>(takings: &[Taking<'a>]) -> Vec<&'a str> {
    takings.iter().map(|taking| taking.owner).collect()
}

/// Topic, partition, offset, job, digest, failures, deaths, whether it runs, and its wait in milliseconds.
type Row = (String, i32, i64, String, Vec<u8>, i32, i32, bool, i64);

/// Runner, deaths, failures, whether it is due, and for how many milliseconds it was noted and found free.
type Run = (Option<String>, i32, i32, bool, i64, Option<i64>);

fn counted(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn count(counted: i32) -> u32 {
    u32::try_from(counted).unwrap_or(0)
}

impl AttemptSql for Postgres {
    async fn owners(conn: &mut PgConnection, group: &str, takings: &[Taking<'_>]) -> Result<Vec<Found>, Error> {
        let (topics, partitions, _) = columns(takings);
        let rows: Vec<(String, i32, String, i64, i32, i64)> = sqlx::query_as(
            "SELECT o.topic, o.partition, o.owner, o.position, o.deaths, \
             (extract(epoch FROM pg_catalog.clock_timestamp() - o.since) * 1000)::bigint FROM idempotent_jobs.owners o \
             JOIN unnest($2::text[], $3::integer[]) t (topic, partition) ON o.topic = t.topic AND o.partition = t.partition \
             WHERE o.\"group\" = $1 ORDER BY o.topic, o.partition FOR UPDATE OF o",
        )
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .fetch_all(conn)
        .await?;
        let found = |(topic, partition, owner, position, deaths, age)| Found {
            topic,
            partition,
            owner,
            position,
            deaths: count(deaths),
            age: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
        };
        Ok(rows.into_iter().map(found).collect())
    }

    async fn own(conn: &mut PgConnection, group: &str, takings: &[Taking<'_>], deaths: &[u32]) -> Result<(), Error> {
        let (topics, partitions, positions) = columns(takings);
        sqlx::query(
            "INSERT INTO idempotent_jobs.owners (\"group\", topic, partition, owner, position, deaths) \
             SELECT $1, t.* FROM unnest($2::text[], $3::integer[], $4::text[], $5::bigint[], $6::integer[]) \
             t (topic, partition, owner, position, deaths) ORDER BY t.topic, t.partition \
             ON CONFLICT (\"group\", topic, partition) DO UPDATE SET owner = EXCLUDED.owner, \
             position = EXCLUDED.position, deaths = EXCLUDED.deaths, since = pg_catalog.now()",
        )
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .bind(owners(takings))
        .bind(positions)
        .bind(deaths.iter().copied().map(counted).collect::<Vec<_>>())
        .execute(conn)
        .await
        .map(drop)
    }

    // Rows that somebody holds are swept the next time.
    async fn sweep(conn: &mut PgConnection, group: &str, takings: &[Taking<'_>]) -> Result<(), Error> {
        let (topics, partitions, positions) = columns(takings);
        sqlx::query(
            "DELETE FROM idempotent_jobs.attempts WHERE (\"group\", topic, partition, \"offset\", job) IN \
             (SELECT a.\"group\", a.topic, a.partition, a.\"offset\", a.job FROM idempotent_jobs.attempts a \
             JOIN unnest($2::text[], $3::integer[], $4::bigint[]) t (topic, partition, position) \
             ON a.topic = t.topic AND a.partition = t.partition AND a.\"offset\" < t.position \
             WHERE a.\"group\" = $1 FOR UPDATE OF a SKIP LOCKED)",
        )
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .bind(positions)
        .execute(conn)
        .await
        .map(drop)
    }

    // An attempt that goes on holds its row: it deleted it in its transaction.
    async fn count_deaths(
        conn: &mut PgConnection,
        group: &str,
        process: &str,
        takings: &[Taking<'_>],
        owners: &[Option<&str>],
    ) -> Result<(), Error> {
        let (topics, partitions, _) = columns(takings);
        sqlx::query(
            "UPDATE idempotent_jobs.attempts u SET deaths = u.deaths + CASE WHEN d.died THEN 1 ELSE 0 END, \
             runner = NULL, due_at = pg_catalog.clock_timestamp(), changed_at = pg_catalog.now() FROM \
             (SELECT a.topic, a.partition, a.\"offset\", a.job, \
             a.runner IS NOT DISTINCT FROM t.owner AND NOT starts_with(a.runner, $4) AS died \
             FROM idempotent_jobs.attempts a \
             JOIN unnest($2::text[], $3::integer[], $5::text[]) t (topic, partition, owner) \
             ON a.topic = t.topic AND a.partition = t.partition \
             WHERE a.\"group\" = $1 AND a.runner IS NOT NULL FOR UPDATE OF a SKIP LOCKED) d \
             WHERE u.\"group\" = $1 AND u.topic = d.topic AND u.partition = d.partition AND u.\"offset\" = d.\"offset\" AND u.job = d.job",
        )
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .bind(process)
        .bind(owners)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn attempts(
        conn: &mut PgConnection,
        group: &str,
        takings: &[Taking<'_>],
    ) -> Result<Vec<(String, i32, Attempted)>, Error> {
        let (topics, partitions, positions) = columns(takings);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT a.topic, a.partition, a.\"offset\", a.job, a.digest, a.failures, a.deaths, a.runner IS NOT NULL, \
             (extract(epoch FROM GREATEST(a.due_at - pg_catalog.clock_timestamp(), interval '0')) * 1000)::bigint \
             FROM idempotent_jobs.attempts a \
             JOIN unnest($2::text[], $3::integer[], $4::bigint[]) t (topic, partition, position) \
             ON a.topic = t.topic AND a.partition = t.partition AND a.\"offset\" >= t.position WHERE a.\"group\" = $1",
        )
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .bind(positions)
        .fetch_all(conn)
        .await?;
        let attempted = |(topic, partition, offset, job, digest, failures, deaths, runs, wait)| {
            let (failures, deaths) = (count(failures), count(deaths));
            let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
            (topic, partition, Attempted { offset, job, failures, deaths, runs, wait, digest })
        };
        Ok(rows.into_iter().map(attempted).collect())
    }

    async fn disown(conn: &mut PgConnection, group: &str, owned: &[Taking<'_>]) -> Result<(), Error> {
        let (topics, partitions, _) = columns(owned);
        sqlx::query(
            "DELETE FROM idempotent_jobs.owners WHERE (\"group\", topic, partition) IN \
             (SELECT o.\"group\", o.topic, o.partition FROM idempotent_jobs.owners o \
             JOIN unnest($2::text[], $3::integer[], $4::text[]) t (topic, partition, owner) \
             ON o.topic = t.topic AND o.partition = t.partition AND o.owner = t.owner \
             WHERE o.\"group\" = $1 ORDER BY o.topic, o.partition FOR UPDATE OF o)",
        )
        .bind(group)
        .bind(&topics)
        .bind(&partitions)
        .bind(owners(owned))
        .execute(&mut *conn)
        .await?;
        sqlx::query(
            "UPDATE idempotent_jobs.attempts SET runner = NULL WHERE (\"group\", topic, partition, \"offset\", job) IN \
             (SELECT a.\"group\", a.topic, a.partition, a.\"offset\", a.job FROM idempotent_jobs.attempts a \
             JOIN unnest($2::text[], $3::integer[], $4::text[]) t (topic, partition, owner) \
             ON a.topic = t.topic AND a.partition = t.partition AND a.runner = t.owner \
             WHERE a.\"group\" = $1 FOR UPDATE OF a SKIP LOCKED)",
        )
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .bind(owners(owned))
        .execute(conn)
        .await
        .map(drop)
    }

    async fn runs(conn: &mut PgConnection, tried: &Tried<'_>, digest: &[u8], owner: &str) -> Result<(), Error> {
        let at = &tried.message.coordinates;
        sqlx::query(
            "INSERT INTO idempotent_jobs.attempts AS a (\"group\", topic, partition, \"offset\", job, digest, runner) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (\"group\", topic, partition, \"offset\", job) DO UPDATE SET \
             failures = CASE WHEN a.digest = EXCLUDED.digest THEN a.failures ELSE 0 END, \
             deaths = CASE WHEN a.digest = EXCLUDED.digest THEN a.deaths ELSE 0 END, \
             digest = EXCLUDED.digest, runner = EXCLUDED.runner, changed_at = pg_catalog.now()",
        )
        .bind(tried.group)
        .bind(&*at.topic)
        .bind(at.partition)
        .bind(at.offset)
        .bind(tried.job)
        .bind(digest)
        .bind(owner)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn waits(conn: &mut PgConnection, tried: &Tried<'_>, digest: &[u8], waits: Waits<'_>) -> Result<(), Error> {
        let at = &tried.message.coordinates;
        sqlx::query(
            "INSERT INTO idempotent_jobs.attempts AS a \
             (\"group\", topic, partition, \"offset\", job, digest, failures, due_at, last_error) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, pg_catalog.clock_timestamp() + $8 * interval '1 millisecond', $9) \
             ON CONFLICT (\"group\", topic, partition, \"offset\", job) DO UPDATE SET \
             failures = CASE WHEN a.digest = EXCLUDED.digest THEN GREATEST(a.failures, EXCLUDED.failures) \
             ELSE EXCLUDED.failures END, \
             deaths = CASE WHEN a.digest = EXCLUDED.digest AND NOT ($11 AND COALESCE(a.runner = $10, false)) THEN a.deaths ELSE 0 END, \
             digest = EXCLUDED.digest, due_at = EXCLUDED.due_at, last_error = COALESCE(EXCLUDED.last_error, a.last_error), \
             runner = NULLIF(a.runner, $10), changed_at = pg_catalog.now()",
        )
        .bind(tried.group)
        .bind(&*at.topic)
        .bind(at.partition)
        .bind(at.offset)
        .bind(tried.job)
        .bind(digest)
        .bind(counted(waits.failures))
        .bind(millis(waits.wait))
        .bind(waits.error.map(cleaned))
        .bind(waits.owner)
        .bind(waits.survived)
        .execute(conn)
        .await
        .map(drop)
    }

    async fn lock_letter(conn: &mut PgConnection, id: i64) -> Result<bool, Error> {
        let free: Option<i64> = sqlx::query_scalar(
            "SELECT id FROM idempotent_jobs.dead_letters WHERE id = $1 AND state = 'requested' FOR UPDATE SKIP LOCKED",
        )
        .bind(id)
        .fetch_optional(conn)
        .await?;
        Ok(free.is_some())
    }

    async fn noted_run(conn: &mut PgConnection, id: i64) -> Result<Option<NotedRun>, Error> {
        let row: Option<Run> = sqlx::query_as(
            "SELECT runner, deaths, failures, due_at <= pg_catalog.clock_timestamp(), \
             (extract(epoch FROM pg_catalog.clock_timestamp() - changed_at) * 1000)::bigint, \
             (extract(epoch FROM pg_catalog.clock_timestamp() - free_at) * 1000)::bigint \
             FROM idempotent_jobs.redrives WHERE letter = $1 FOR UPDATE",
        )
        .bind(id)
        .fetch_optional(conn)
        .await?;
        Ok(row.map(|(runner, deaths, failures, is_due, noted, free)| {
            let known = Redriven { deaths: count(deaths), failures: count(failures) };
            NotedRun::new(runner, known, is_due, (noted, free))
        }))
    }

    async fn doubt_run(conn: &mut PgConnection, id: i64) -> Result<(), Error> {
        sqlx::query("UPDATE idempotent_jobs.redrives SET free_at = pg_catalog.clock_timestamp() WHERE letter = $1")
            .bind(id)
            .execute(conn)
            .await
            .map(drop)
    }

    async fn note_run(conn: &mut PgConnection, id: i64, process: &str, known: Redriven) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO idempotent_jobs.redrives (letter, runner, deaths) VALUES ($1, $2, $3) \
             ON CONFLICT (letter) DO UPDATE SET runner = EXCLUDED.runner, deaths = EXCLUDED.deaths, \
             changed_at = pg_catalog.clock_timestamp(), free_at = NULL",
        )
        .bind(id)
        .bind(process)
        .bind(counted(known.deaths))
        .execute(conn)
        .await
        .map(drop)
    }

    async fn redrive_ended(conn: &mut PgConnection, id: i64, process: &str, ended: Redrive) -> Result<bool, Error> {
        let over = sqlx::query(
            "DELETE FROM idempotent_jobs.redrives WHERE letter = $1 AND runner = $2 AND NOT EXISTS \
             (SELECT 1 FROM idempotent_jobs.dead_letters WHERE id = $1 AND state = 'requested')",
        )
        .bind(id)
        .bind(process)
        .execute(&mut *conn)
        .await?;
        if over.rows_affected() > 0 {
            return Ok(true);
        }
        sqlx::query(
            "UPDATE idempotent_jobs.redrives SET runner = NULL, deaths = CASE WHEN $3 THEN 0 ELSE deaths END, failures = $4, \
             due_at = pg_catalog.clock_timestamp() + $5 * interval '1 millisecond' WHERE letter = $1 AND runner = $2",
        )
        .bind(id)
        .bind(process)
        .bind(ended.survived)
        .bind(counted(ended.failures))
        .bind(millis(ended.wait))
        .execute(conn)
        .await
        .map(|done| done.rows_affected() > 0)
    }

    async fn forget_redrive(conn: &mut PgConnection, id: i64) -> Result<(), Error> {
        sqlx::query("DELETE FROM idempotent_jobs.redrives WHERE letter = $1").bind(id).execute(conn).await.map(drop)
    }

    async fn redrives_ended(conn: &mut PgConnection, process: &str) -> Result<(), Error> {
        sqlx::query("UPDATE idempotent_jobs.redrives SET runner = NULL WHERE runner = $1")
            .bind(process)
            .execute(conn)
            .await
            .map(drop)
    }

    async fn forget(conn: &mut PgConnection, group: &str, job: &str, at: &Coordinates) -> Result<(), Error> {
        sqlx::query(
            "DELETE FROM idempotent_jobs.attempts \
             WHERE \"group\" = $1 AND topic = $2 AND partition = $3 AND \"offset\" = $4 AND job = $5",
        )
        .bind(group)
        .bind(&*at.topic)
        .bind(at.partition)
        .bind(at.offset)
        .bind(job)
        .execute(conn)
        .await
        .map(drop)
    }
}

/// A wait that the column can hold: 100 years at most.
fn millis(wait: Duration) -> f64 {
    wait.as_secs_f64().min(100.0 * 365.0 * 86_400.0) * 1_000.0
}
