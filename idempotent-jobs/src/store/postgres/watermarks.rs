//! The `watermarks` table.

use sqlx::{Error, PgConnection, Postgres};

use crate::store::watermarks::{Advance, Watermark, WatermarkSql};

impl WatermarkSql for Postgres {
    async fn lineage(conn: &mut PgConnection) -> Result<String, Error> {
        sqlx::query_scalar(
            "SELECT (extract(epoch FROM applied_at) * 1000000)::bigint::text \
             FROM idempotent_jobs.migrations WHERE version = 1",
        )
        .fetch_one(conn)
        .await
    }

    async fn marks(conn: &mut PgConnection, group: &str, partitions: &[(&str, i32)]) -> Result<Vec<Watermark>, Error> {
        let (topics, numbers): (Vec<&str>, Vec<i32>) = partitions.iter().copied().unzip();
        let rows: Vec<(String, i32, Option<String>, i64, i64, i64)> = sqlx::query_as(
            "SELECT w.topic, w.partition, w.topic_id, w.began, w.\"offset\", w.purged_to \
             FROM idempotent_jobs.watermarks w JOIN unnest($2::text[], $3::integer[]) AS p (topic, partition) \
             ON w.topic = p.topic AND w.partition = p.partition WHERE w.\"group\" = $1",
        )
        .bind(group)
        .bind(topics)
        .bind(numbers)
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

    async fn make_mark(conn: &mut PgConnection, group: &str, after: &Watermark) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO idempotent_jobs.watermarks (\"group\", topic, partition, topic_id, began, \"offset\", purged_to) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (\"group\", topic, partition) DO NOTHING",
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
        conn: &mut PgConnection,
        group: &str,
        before: &Watermark,
        after: &Watermark,
    ) -> Result<bool, Error> {
        let done = sqlx::query(
            "UPDATE idempotent_jobs.watermarks SET topic_id = $4, began = $5, \"offset\" = $6, purged_to = $7, \
             since = CASE WHEN began = $5 AND \"offset\" <= $6 THEN since ELSE pg_catalog.now() END, \
             updated_at = pg_catalog.now() \
             WHERE \"group\" = $1 AND topic = $2 AND partition = $3 \
             AND topic_id IS NOT DISTINCT FROM $8 AND began = $9 AND \"offset\" = $10 AND purged_to = $11",
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

    /// Rows are locked in one order, so that two processes that move the same ones wait in one direction.
    async fn advance_marks(
        conn: &mut PgConnection,
        group: &str,
        steps: &[Advance<'_>],
    ) -> Result<Vec<(String, i32)>, Error> {
        let topics: Vec<&str> = steps.iter().map(|step| step.topic).collect();
        let numbers: Vec<i32> = steps.iter().map(|step| step.partition).collect();
        let ids: Vec<Option<&str>> = steps.iter().map(|step| step.topic_id).collect();
        let from: Vec<i64> = steps.iter().map(|step| step.from).collect();
        let to: Vec<i64> = steps.iter().map(|step| step.to).collect();
        sqlx::query_as(
            "WITH s AS MATERIALIZED (SELECT w.topic, w.partition, s.\"to\" FROM idempotent_jobs.watermarks w \
             JOIN unnest($2::text[], $3::integer[], $4::text[], $5::bigint[], $6::bigint[]) \
             AS s (topic, partition, topic_id, \"from\", \"to\") ON w.topic = s.topic AND w.partition = s.partition \
             WHERE w.\"group\" = $1 AND w.\"offset\" >= s.\"from\" AND w.topic_id IS NOT DISTINCT FROM s.topic_id \
             ORDER BY w.topic, w.partition FOR UPDATE OF w) \
             UPDATE idempotent_jobs.watermarks w SET \"offset\" = GREATEST(w.\"offset\", s.\"to\"), \
             updated_at = pg_catalog.now() FROM s \
             WHERE w.\"group\" = $1 AND w.topic = s.topic AND w.partition = s.partition RETURNING w.topic, w.partition",
        )
        .bind(group)
        .bind(topics)
        .bind(numbers)
        .bind(ids)
        .bind(from)
        .bind(to)
        .fetch_all(conn)
        .await
    }
}

/// The rows of all groups.
pub(super) async fn all(conn: &mut PgConnection) -> Result<Vec<(String, Watermark)>, Error> {
    type Row = (String, String, i32, Option<String>, i64, i64, i64);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT \"group\", topic, partition, topic_id, began, \"offset\", purged_to \
         FROM idempotent_jobs.watermarks ORDER BY \"group\", topic, partition",
    )
    .fetch_all(conn)
    .await?;
    let row = |(group, topic, partition, topic_id, began, offset, purged_to): Row| {
        (group, Watermark { topic: topic.into(), partition, topic_id, began, offset, purged_to })
    };
    Ok(rows.into_iter().map(row).collect())
}
