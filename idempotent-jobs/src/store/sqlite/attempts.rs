//! The `attempts` and `owners` tables.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Error, Sqlite, SqliteConnection};

use crate::message::Coordinates;
use crate::store::attempts::{AttemptSql, Attempted, Found, NotedRun, Redrive, Redriven, Taking, Tried, Waits};
use crate::store::letters::cleaned;

/// Milliseconds since the Unix epoch.
const NOW: &str = "(CAST(strftime('%s', 'now') AS INTEGER) * 1000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER))";

/// Offset, job, digest, failures, deaths, whether it runs, and its wait in milliseconds.
type Row = (i64, String, Vec<u8>, i64, i64, bool, i64);

/// Runner, deaths, failures, whether it is due, and for how many milliseconds it was noted and found free.
type Run = (Option<String>, i64, i64, bool, i64, Option<i64>);

fn count(counted: i64) -> u32 {
    u32::try_from(counted).unwrap_or(0)
}

// One statement a partition, where a server would take arrays: there is no trip to save. Nobody holds a row:
// the transaction that writes is alone, and an attempt that goes on lets none begin.
impl AttemptSql for Sqlite {
    async fn owners(conn: &mut SqliteConnection, group: &str, takings: &[Taking<'_>]) -> Result<Vec<Found>, Error> {
        let mut all = Vec::new();
        for Taking { from, .. } in takings {
            let row: Option<(String, i64, i64, i64)> = sqlx::query_as(
                "SELECT owner, position, deaths, CAST((julianday('now') - julianday(since)) * 86400000 AS INTEGER) \
                 FROM main.idempotent_jobs_owners \
                 WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3",
            )
            .bind(group)
            .bind(&*from.topic)
            .bind(from.partition)
            .fetch_optional(&mut *conn)
            .await?;
            let found = |(owner, position, deaths, age)| Found {
                topic: from.topic.to_string(),
                partition: from.partition,
                owner,
                position,
                deaths: count(deaths),
                age: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
            };
            all.extend(row.map(found));
        }
        Ok(all)
    }

    async fn own(
        conn: &mut SqliteConnection,
        group: &str,
        takings: &[Taking<'_>],
        deaths: &[u32],
    ) -> Result<(), Error> {
        for (Taking { from, owner }, deaths) in takings.iter().zip(deaths) {
            sqlx::query(
                "INSERT INTO main.idempotent_jobs_owners (\"group\", topic, \"partition\", owner, position, deaths) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (\"group\", topic, \"partition\") DO UPDATE SET \
                 owner = excluded.owner, position = excluded.position, deaths = excluded.deaths, \
                 since = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
            )
            .bind(group)
            .bind(&*from.topic)
            .bind(from.partition)
            .bind(*owner)
            .bind(from.offset)
            .bind(i64::from(*deaths))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn sweep(conn: &mut SqliteConnection, group: &str, takings: &[Taking<'_>]) -> Result<(), Error> {
        for Taking { from, .. } in takings {
            sqlx::query(
                "DELETE FROM main.idempotent_jobs_attempts \
                 WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND \"offset\" < $4",
            )
            .bind(group)
            .bind(&*from.topic)
            .bind(from.partition)
            .bind(from.offset)
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn count_deaths(
        conn: &mut SqliteConnection,
        group: &str,
        process: &str,
        takings: &[Taking<'_>],
        owners: &[Option<&str>],
    ) -> Result<(), Error> {
        let sql = format!(
            "UPDATE main.idempotent_jobs_attempts \
             SET deaths = deaths + CASE WHEN runner IS $5 AND substr(runner, 1, length($4)) <> $4 THEN 1 ELSE 0 END, \
             runner = NULL, due_at = {NOW}, changed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') \
             WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND runner IS NOT NULL"
        );
        for (Taking { from, .. }, owner) in takings.iter().zip(owners) {
            sqlx::query(AssertSqlSafe(sql.clone()))
                .bind(group)
                .bind(&*from.topic)
                .bind(from.partition)
                .bind(process)
                .bind(*owner)
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }

    async fn attempts(
        conn: &mut SqliteConnection,
        group: &str,
        takings: &[Taking<'_>],
    ) -> Result<Vec<(String, i32, Attempted)>, Error> {
        let sql = format!(
            "SELECT \"offset\", job, digest, failures, deaths, runner IS NOT NULL, max(due_at - {NOW}, 0) FROM main.idempotent_jobs_attempts \
             WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND \"offset\" >= $4"
        );
        let mut all = Vec::new();
        for Taking { from, .. } in takings {
            let rows: Vec<Row> = sqlx::query_as(AssertSqlSafe(sql.clone()))
                .bind(group)
                .bind(&*from.topic)
                .bind(from.partition)
                .bind(from.offset)
                .fetch_all(&mut *conn)
                .await?;
            all.extend(rows.into_iter().map(|(offset, job, digest, failures, deaths, runs, wait)| {
                let (failures, deaths) = (count(failures), count(deaths));
                let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
                (
                    from.topic.to_string(),
                    from.partition,
                    Attempted { offset, job, failures, deaths, runs, wait, digest },
                )
            }));
        }
        Ok(all)
    }

    async fn disown(conn: &mut SqliteConnection, group: &str, owned: &[Taking<'_>]) -> Result<(), Error> {
        const DELETE: &str = "DELETE FROM main.idempotent_jobs_owners \
             WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND owner = $4";
        const CLEAR: &str = "UPDATE main.idempotent_jobs_attempts SET runner = NULL \
             WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND runner = $4";
        for Taking { from, owner } in owned {
            for sql in [DELETE, CLEAR] {
                sqlx::query(sql)
                    .bind(group)
                    .bind(&*from.topic)
                    .bind(from.partition)
                    .bind(*owner)
                    .execute(&mut *conn)
                    .await?;
            }
        }
        Ok(())
    }

    async fn runs(conn: &mut SqliteConnection, tried: &Tried<'_>, digest: &[u8], owner: &str) -> Result<(), Error> {
        let at = &tried.message.coordinates;
        sqlx::query(
            "INSERT INTO main.idempotent_jobs_attempts AS a \
             (\"group\", topic, \"partition\", \"offset\", job, digest, runner) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (\"group\", topic, \"partition\", \"offset\", job) DO UPDATE SET \
             failures = CASE WHEN a.digest = excluded.digest THEN a.failures ELSE 0 END, \
             deaths = CASE WHEN a.digest = excluded.digest THEN a.deaths ELSE 0 END, \
             digest = excluded.digest, runner = excluded.runner, changed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
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

    async fn waits(
        conn: &mut SqliteConnection,
        tried: &Tried<'_>,
        digest: &[u8],
        waits: Waits<'_>,
    ) -> Result<(), Error> {
        let sql = format!(
            "INSERT INTO main.idempotent_jobs_attempts AS a \
             (\"group\", topic, \"partition\", \"offset\", job, digest, failures, due_at, last_error) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, {NOW} + $8, $9) \
             ON CONFLICT (\"group\", topic, \"partition\", \"offset\", job) DO UPDATE SET \
             failures = CASE WHEN a.digest = excluded.digest THEN max(a.failures, excluded.failures) \
             ELSE excluded.failures END, \
             deaths = CASE WHEN a.digest = excluded.digest AND NOT ($11 AND COALESCE(a.runner = $10, false)) THEN a.deaths ELSE 0 END, \
             digest = excluded.digest, due_at = excluded.due_at, last_error = COALESCE(excluded.last_error, a.last_error), \
             runner = NULLIF(a.runner, $10), changed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
        );
        let at = &tried.message.coordinates;
        sqlx::query(AssertSqlSafe(sql))
            .bind(tried.group)
            .bind(&*at.topic)
            .bind(at.partition)
            .bind(at.offset)
            .bind(tried.job)
            .bind(digest)
            .bind(i64::from(waits.failures))
            .bind(millis(waits.wait))
            .bind(waits.error.map(cleaned))
            .bind(waits.owner)
            .bind(waits.survived)
            .execute(conn)
            .await
            .map(drop)
    }

    async fn lock_letter(conn: &mut SqliteConnection, id: i64) -> Result<bool, Error> {
        let free: Option<i64> = sqlx::query_scalar(
            "SELECT id FROM main.idempotent_jobs_dead_letters WHERE id = $1 AND state = 'requested'",
        )
        .bind(id)
        .fetch_optional(conn)
        .await?;
        Ok(free.is_some())
    }

    async fn noted_run(conn: &mut SqliteConnection, id: i64) -> Result<Option<NotedRun>, Error> {
        let sql = format!(
            "SELECT runner, deaths, failures, due_at <= {NOW}, {NOW} - changed_at, {NOW} - free_at \
             FROM main.idempotent_jobs_redrives WHERE letter = $1"
        );
        let row: Option<Run> = sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(conn).await?;
        Ok(row.map(|(runner, deaths, failures, is_due, noted, free)| {
            let known = Redriven { deaths: count(deaths), failures: count(failures) };
            NotedRun::new(runner, known, is_due, (noted, free))
        }))
    }

    async fn doubt_run(conn: &mut SqliteConnection, id: i64) -> Result<(), Error> {
        let sql = format!("UPDATE main.idempotent_jobs_redrives SET free_at = {NOW} WHERE letter = $1");
        sqlx::query(AssertSqlSafe(sql)).bind(id).execute(conn).await.map(drop)
    }

    async fn note_run(conn: &mut SqliteConnection, id: i64, process: &str, known: Redriven) -> Result<(), Error> {
        let sql = format!(
            "INSERT INTO main.idempotent_jobs_redrives (letter, runner, deaths, changed_at) VALUES ($1, $2, $3, {NOW}) \
             ON CONFLICT (letter) DO UPDATE SET runner = excluded.runner, deaths = excluded.deaths, \
             changed_at = excluded.changed_at, free_at = NULL"
        );
        sqlx::query(AssertSqlSafe(sql))
            .bind(id)
            .bind(process)
            .bind(i64::from(known.deaths))
            .execute(conn)
            .await
            .map(drop)
    }

    async fn redrive_ended(conn: &mut SqliteConnection, id: i64, process: &str, ended: Redrive) -> Result<bool, Error> {
        let over = sqlx::query(
            "DELETE FROM main.idempotent_jobs_redrives WHERE letter = $1 AND runner = $2 AND NOT EXISTS \
             (SELECT 1 FROM main.idempotent_jobs_dead_letters WHERE id = $1 AND state = 'requested')",
        )
        .bind(id)
        .bind(process)
        .execute(&mut *conn)
        .await?;
        if over.rows_affected() > 0 {
            return Ok(true);
        }
        let sql = format!(
            "UPDATE main.idempotent_jobs_redrives SET runner = NULL, deaths = CASE WHEN $3 THEN 0 ELSE deaths END, failures = $4, \
             due_at = {NOW} + $5 WHERE letter = $1 AND runner = $2"
        );
        sqlx::query(AssertSqlSafe(sql))
            .bind(id)
            .bind(process)
            .bind(ended.survived)
            .bind(i64::from(ended.failures))
            .bind(millis(ended.wait))
            .execute(conn)
            .await
            .map(|done| done.rows_affected() > 0)
    }

    async fn forget_redrive(conn: &mut SqliteConnection, id: i64) -> Result<(), Error> {
        sqlx::query("DELETE FROM main.idempotent_jobs_redrives WHERE letter = $1")
            .bind(id)
            .execute(conn)
            .await
            .map(drop)
    }

    async fn redrives_ended(conn: &mut SqliteConnection, process: &str) -> Result<(), Error> {
        sqlx::query("UPDATE main.idempotent_jobs_redrives SET runner = NULL WHERE runner = $1")
            .bind(process)
            .execute(conn)
            .await
            .map(drop)
    }

    async fn forget(conn: &mut SqliteConnection, group: &str, job: &str, at: &Coordinates) -> Result<(), Error> {
        sqlx::query(
            "DELETE FROM main.idempotent_jobs_attempts \
             WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 AND \"offset\" = $4 AND job = $5",
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

/// A wait that ends some day: in 100 years at most.
fn millis(wait: Duration) -> i64 {
    i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).min(100 * 365 * 86_400_000)
}
