//! The `watermarks` table.

use sqlx::{Error, Sqlite, SqliteConnection};

use crate::store::watermarks::{Advance, Watermark, WatermarkSql};

impl WatermarkSql for Sqlite {
    async fn lineage(conn: &mut SqliteConnection) -> Result<String, Error> {
        sqlx::query_scalar("SELECT applied_at FROM main.idempotent_jobs_migrations WHERE version = 1")
            .fetch_one(conn)
            .await
    }

    async fn marks(
        conn: &mut SqliteConnection,
        group: &str,
        partitions: &[(&str, i32)],
    ) -> Result<Vec<Watermark>, Error> {
        let rows: Vec<(String, i32, Option<String>, i64, i64, i64)> = sqlx::query_as(
            "SELECT w.topic, w.\"partition\", w.topic_id, w.began, w.\"offset\", w.purged_to \
             FROM main.idempotent_jobs_watermarks w JOIN json_each($2) AS p \
             ON w.topic = p.value ->> 0 AND w.\"partition\" = p.value ->> 1 WHERE w.\"group\" = $1",
        )
        .bind(group)
        .bind(json(&partitions)?)
        .fetch_all(conn)
        .await?;
        let row = |(topic, partition, topic_id, began, offset, purged_to): (String, _, _, _, _, _)| Watermark {
            topic: topic.into(),
            partition,
            topic_id,
            began,
            offset,
            purged_to,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    async fn make_mark(conn: &mut SqliteConnection, group: &str, after: &Watermark) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO main.idempotent_jobs_watermarks \
             (\"group\", topic, \"partition\", topic_id, began, \"offset\", purged_to) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (\"group\", topic, \"partition\") DO NOTHING",
        )
        .bind(group)
        .bind(&*after.topic)
        .bind(after.partition)
        .bind(&after.topic_id)
        .bind(after.began)
        .bind(after.offset)
        .bind(after.purged_to)
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn replace_mark(
        conn: &mut SqliteConnection,
        group: &str,
        before: &Watermark,
        after: &Watermark,
    ) -> Result<bool, Error> {
        let done = sqlx::query(
            "UPDATE main.idempotent_jobs_watermarks SET topic_id = $4, began = $5, \"offset\" = $6, purged_to = $7, \
             since = CASE WHEN began = $5 AND \"offset\" <= $6 THEN since ELSE strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, \
             updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') \
             WHERE \"group\" = $1 AND topic = $2 AND \"partition\" = $3 \
             AND topic_id IS $8 AND began = $9 AND \"offset\" = $10 AND purged_to = $11",
        )
        .bind(group)
        .bind(&*after.topic)
        .bind(after.partition)
        .bind(&after.topic_id)
        .bind(after.began)
        .bind(after.offset)
        .bind(after.purged_to)
        .bind(&before.topic_id)
        .bind(before.began)
        .bind(before.offset)
        .bind(before.purged_to)
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Nobody else writes meanwhile: the transaction holds the write lock.
    async fn advance_marks(
        conn: &mut SqliteConnection,
        group: &str,
        steps: &[Advance<'_>],
    ) -> Result<Vec<(String, i32)>, Error> {
        let steps: Vec<_> =
            steps.iter().map(|step| (step.topic, step.partition, step.topic_id, step.from, step.to)).collect();
        sqlx::query_as(
            "UPDATE main.idempotent_jobs_watermarks AS w SET \"offset\" = max(w.\"offset\", s.value ->> 4), \
             updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM json_each($2) AS s \
             WHERE w.\"group\" = $1 AND w.topic = s.value ->> 0 AND w.\"partition\" = s.value ->> 1 \
             AND w.topic_id IS s.value ->> 2 AND w.\"offset\" >= s.value ->> 3 RETURNING topic, \"partition\"",
        )
        .bind(group)
        .bind(json(&steps)?)
        .fetch_all(conn)
        .await
    }
}

fn json(rows: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(rows).map_err(|error| Error::Encode(Box::new(error)))
}

/// The rows of all groups.
pub(super) async fn all(conn: &mut SqliteConnection) -> Result<Vec<(String, Watermark)>, Error> {
    type Row = (String, String, i32, Option<String>, i64, i64, i64);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT \"group\", topic, \"partition\", topic_id, began, \"offset\", purged_to \
         FROM main.idempotent_jobs_watermarks ORDER BY \"group\", topic, \"partition\"",
    )
    .fetch_all(conn)
    .await?;
    let row = |(group, topic, partition, topic_id, began, offset, purged_to): Row| {
        (group, Watermark { topic: topic.into(), partition, topic_id, began, offset, purged_to })
    };
    Ok(rows.into_iter().map(row).collect())
}
