//! Whether a job may go by its name. The databases hold the `jobs` table.

use std::time::Duration;

use futures_util::TryFutureExt;
use sqlx::{Database, Error};
use sqlx_core::sql_str::SqlSafeStr;
use sqlx_core::transaction::TransactionManager;

use super::dialect::{Dialect, Options};
use super::slots::{ANSWER, SCAN, connect, part, within};
use super::{Committed, JobRow, StoreError};

/// A job as it was registered before.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) key_form: String,
    pub(super) scheme: String,
}

/// The highest offset of a partition among the rows of a job and group.
#[derive(Debug, Clone)]
pub struct Highest {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// What a start does with a job that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing to write.
    Keep,
    /// Write the new fingerprint scheme.
    Rescheme,
    /// Write the new key form, if no row of the job can be redelivered.
    Rekey,
    /// The worker does not start.
    Refuse(String),
}

/// Records jobs, or none of them if one is refused, on a connection of its own.
pub(super) async fn register<DB: Dialect>(
    options: &Options<DB>,
    jobs: &[JobRow<'_>],
    committed: Committed<'_>,
) -> Result<Vec<String>, StoreError> {
    // Every early return drops the connection, which rolls back.
    let mut conn = connect::<DB>(options).await?;
    let starting = Some(DB::STARTING.into_sql_str());
    answer::<DB, _>(ANSWER, DB::TransactionManager::begin(&mut conn, starting)).await?;
    // One order for all: workers that start at once wait for each other's rows, never in a circle.
    let mut jobs: Vec<_> = jobs.iter().collect();
    jobs.sort_by_key(|job| job.name);
    let mut refusals = Vec::new();
    for job in jobs {
        refusals.extend(register_one::<DB>(&mut conn, job, committed).await?);
    }
    if refusals.is_empty() {
        answer::<DB, _>(ANSWER, DB::TransactionManager::commit(&mut conn)).await?;
    }
    part::<DB>(conn).await;
    Ok(refusals)
}

async fn register_one<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    job: &JobRow<'_>,
    committed: Committed<'_>,
) -> Result<Option<String>, StoreError> {
    if answer::<DB, _>(ANSWER, DB::record(conn, job)).await? {
        return Ok(None);
    }
    let recorded = answer::<DB, _>(ANSWER, DB::recorded(conn, job)).await?;
    if job.shared {
        // Undone if the start is refused.
        answer::<DB, _>(ANSWER, DB::share(conn, job)).await?;
    }
    match compare(job, &recorded) {
        Step::Keep => return Ok(None),
        Step::Refuse(refusal) => return Ok(Some(refusal)),
        Step::Rescheme => {}
        Step::Rekey => {
            let rows = answer::<DB, _>(SCAN, DB::highest(conn, job)).await?;
            if let Some(refusal) = undrained(job, &recorded, &rows, committed) {
                return Ok(Some(refusal));
            }
        }
    }
    answer::<DB, _>(ANSWER, DB::change(conn, job)).await.map(|()| None)
}

async fn answer<DB: Dialect, T>(
    limit: Duration,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    const DOING: &str = "registering the jobs";
    within(limit, DOING, step.map_err(|error| StoreError::waiting::<DB>(DOING, error))).await
}

/// Compares a job with its record.
pub(super) fn compare(job: &JobRow<'_>, recorded: &Recorded) -> Step {
    let owner = recorded.group == job.group && recorded.topic == job.topic;
    if !owner && !job.shared {
        return Step::Refuse(format!(
            "job `{0}` is registered in this database for group `{1}` and topic `{2}`, and this worker is group `{3}` \
             with topic `{4}`: they would swallow each other's messages. Give the job another name, \
             `#[idempotent_job(name = \"…\")]`, or, if a key handled by one must not be handled by the other, \
             share it: `Worker::builder().share_job(\"{0}\")`",
            job.name, recorded.group, recorded.topic, job.group, job.topic
        ));
    }
    match (recorded.key_form == job.key_form, owner) {
        (true, true) if recorded.scheme != job.scheme => Step::Rescheme,
        (true, _) => Step::Keep,
        (false, true) => Step::Rekey,
        (false, false) => Step::Refuse(format!(
            "job `{0}` is shared with group `{1}` and topic `{2}`, which key it by `{3}`, not by `{4}`: \
             keys of different forms never meet. Key both alike",
            job.name, recorded.group, recorded.topic, recorded.key_form, job.key_form
        )),
    }
}

/// Refuses a changed key form while messages that were claimed under the old one can come
/// again: they would be claimed, and run, once more.
pub(super) fn undrained(
    job: &JobRow<'_>,
    recorded: &Recorded,
    rows: &[Highest],
    committed: Committed<'_>,
) -> Option<String> {
    let open = rows.iter().find(|row| committed(&row.topic, row.partition).is_none_or(|next| row.offset >= next))?;
    let committed = committed(&open.topic, open.partition).map_or("none".to_owned(), |next| next.to_string());
    Some(format!(
        "the key of job `{0}` was `{1}` and is now `{2}`, and messages claimed under the old key would run again: \
         topic {3}, partition {4} was handled up to offset {5}, but the committed offset of group `{6}` is {committed}. \
         Drain it first: start the old version, let it stop in good order (SIGTERM), and start the new one when no other member runs; \
         or keep the old key, or give the job with the new key another name",
        job.name, recorded.key_form, job.key_form, open.topic, open.partition, open.offset, job.group
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobRow<'_> =
        JobRow { name: "charge", group: "g", topic: "t", key_form: "id:number", scheme: "v1", shared: false };

    fn recorded() -> Recorded {
        Recorded { group: "g".into(), topic: "t".into(), key_form: "id:number".into(), scheme: "v1".into() }
    }

    #[test]
    fn the_same_job_is_kept() {
        assert_eq!(compare(&JOB, &recorded()), Step::Keep);
    }

    #[test]
    fn another_group_or_topic_is_refused_naming_both_and_how_to_share() {
        for other in [Recorded { group: "h".into(), ..recorded() }, Recorded { topic: "u".into(), ..recorded() }] {
            let Step::Refuse(text) = compare(&JOB, &other) else { panic!("refused") };
            for part in ["`g`", "`t`", other.group.as_str(), other.topic.as_str(), "share_job(\"charge\")"] {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert_eq!(compare(&JobRow { shared: true, ..JOB }, &other), Step::Keep);
        }
    }

    #[test]
    fn a_changed_scheme_is_written() {
        assert_eq!(compare(&JobRow { scheme: "v1:a", ..JOB }, &recorded()), Step::Rescheme);
    }

    #[test]
    fn a_shared_job_keeps_the_key_of_its_first_owner() {
        let other = Recorded { group: "h".into(), key_form: "x:text".into(), ..recorded() };
        assert!(matches!(compare(&JobRow { shared: true, ..JOB }, &other), Step::Refuse(_)));
    }

    #[test]
    fn a_changed_key_waits_until_every_row_lies_below_the_committed_offset() {
        let job = JobRow { key_form: "id:number,op:text", ..JOB };
        assert_eq!(compare(&job, &recorded()), Step::Rekey);
        let rows = [
            Highest { topic: "t".into(), partition: 0, offset: 9 },
            Highest { topic: "t".into(), partition: 1, offset: 4 },
        ];
        let at = |zero: Option<i64>, one: Option<i64>| {
            undrained(&job, &recorded(), &rows, &move |_, partition| if partition == 0 { zero } else { one })
        };
        assert_eq!(at(Some(10), Some(5)), None);
        assert!(at(Some(9), Some(5)).unwrap().contains("partition 0 was handled up to offset 9"));
        assert!(at(Some(10), Some(4)).unwrap().contains("partition 1"));
        assert!(at(Some(10), None).unwrap().contains("is none"), "nothing committed: everything comes again");
        assert_eq!(undrained(&job, &recorded(), &[], &|_, _| None), None);
    }
}
