//! The purge's port to the database: walking through the claims and deleting those that nobody can ask for again.
//!
//! The invariant, and where it is kept: a row goes only if it is of the group, lies below the bounds of its
//! partition (`Bound`, whose making is `retention`'s matter), no dead letter of its job and key may be run again, and
//! its job is nobody else's, and the database itself says that its message is done: Kafka's word alone is worth nothing
//! once a database has lost history. All of that is the condition of the one statement that deletes.
//!
//! Each step is one short transaction over a small part of the table. There is no index on time: every claim would pay
//! for it. What a crash takes back of a purge is purged again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::StoreError;

/// What may go of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Only what lies below this offset: the group has committed it.
    pub below: i64,
    /// Only what was processed before.
    pub before: SystemTime,
}

/// What a sweep deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// The group.
    pub group: String,
    /// Its partitions; rows of others stay.
    pub bounds: Vec<Bound>,
}

/// How far a sweep has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Where the next step begins, as the database has it.
    pub(super) at: Place,
}

/// See [`Walk`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "each database has a place of its own")
)]
pub(super) enum Place {
    /// A page of the table, and the first one behind its end.
    Page(i64, i64),
    /// Behind this job and key.
    Key(String, String),
}

/// Whether a sweep may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is this cleaner's.
    Walk(Walk),
    /// Another cleaner of this database is at it.
    Busy,
    /// The group's keys were swept a short while ago.
    Rested,
}

/// Rows of a partition that went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purged {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// How many.
    pub rows: u64,
    /// The offset behind the highest of them.
    pub next: i64,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// What went.
    pub purged: Vec<Purged>,
    /// When the oldest row was processed that the step saw and left, of this group.
    pub oldest: Option<SystemTime>,
    /// It was the last one.
    pub last: bool,
}

/// What a cleaner asks of the database. Every call is bounded; a connection whose call failed or was dropped is
/// closed, and the next call opens another.
#[async_trait]
pub trait RetentionStore: Send + Sync + 'static {
    /// What the clock says by which rows are dated.
    async fn now(&self) -> Result<SystemTime, StoreError>;
    /// Of each of these topics that has any, when the oldest record was enqueued first that is still to be sent, also
    /// once more, or was sent and is kept to be sent again.
    async fn unsent(&self, topics: &[String]) -> Result<BTreeMap<String, SystemTime>, StoreError>;
    /// Of each of these topics that has any, when the oldest message was sent that is a dead letter without a key and
    /// not decided on. A message is taken to have been sent at most `life` before it died.
    async fn unkeyed(
        &self,
        group: &str,
        topics: &[String],
        life: Duration,
    ) -> Result<BTreeMap<String, SystemTime>, StoreError>;
    /// How far the group has settled the partitions of these topics in this very database.
    async fn watermarks(&self, group: &str, topics: &[String]) -> Result<BTreeMap<(String, i32), i64>, StoreError>;
    /// The partitions of these topics of which a worker of the group may have messages in memory: those that one owns, or
    /// died as the owner of, and those of which messages wait for another attempt.
    async fn in_hand(&self, group: &str, topics: &[String]) -> Result<BTreeSet<(String, i32)>, StoreError>;
    /// Begins a sweep for a group, unless the last one of it ended less than `rest` ago.
    async fn begin(&self, group: &str, rest: Duration) -> Result<Begun, StoreError>;
    /// The next step; `None`: the sweep was taken over by another cleaner.
    async fn step(&self, walk: &mut Walk, purge: &Purge) -> Result<Option<Step>, StoreError>;
    /// Ends a sweep that came to its end.
    async fn end(&self, group: &str) -> Result<(), StoreError>;
}

/// Adds up what single rows tell.
#[cfg(feature = "sqlite")]
pub(super) fn added(rows: impl IntoIterator<Item = (String, i32, i64)>) -> Vec<Purged> {
    let mut all: BTreeMap<(String, i32), (u64, i64)> = BTreeMap::new();
    for (topic, partition, offset) in rows {
        let (rows, next) = all.entry((topic, partition)).or_insert((0, i64::MIN));
        *rows += 1;
        *next = (*next).max(offset.saturating_add(1));
    }
    all.into_iter().map(|((topic, partition), (rows, next))| Purged { topic, partition, rows, next }).collect()
}

/// Milliseconds since the Unix epoch, as rows of all databases can be compared with; rounded down.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn millis(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis - 1),
    }
}

/// The cleaner's connection to the database of this URL, whose tables are brought up to date.
///
/// # Errors
/// The database is of no kind this build knows, or cannot be used, or the role may not delete.
pub async fn open_retention(url: &str) -> Result<Arc<dyn RetentionStore>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(super::postgres::PostgresRetention::open(url).await?)),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(super::sqlite::SqliteRetention::open(url).await?)),
        _ => Err(StoreError::lasting("reading DATABASE_URL", super::unknown_database())),
    }
}

#[cfg(all(test, any(feature = "postgres", feature = "sqlite")))]
mod tests {
    use super::*;

    #[cfg(feature = "sqlite")]
    #[test]
    fn rows_are_added_up_by_partition() {
        let row = |partition, offset| ("t".to_owned(), partition, offset);
        let purged = |partition, rows, next| Purged { topic: "t".to_owned(), partition, rows, next };
        assert_eq!(added([row(1, 4), row(0, 7), row(0, 5)]), [purged(0, 2, 8), purged(1, 1, 5)]);
        assert_eq!(added([]), []);
    }

    #[test]
    fn a_time_is_never_rounded_up() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(millis(epoch + Duration::from_micros(1_999)), 1);
        assert_eq!(millis(epoch - Duration::from_micros(1)), -1);
    }
}
