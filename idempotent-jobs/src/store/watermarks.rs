//! Watermarks: how far a group has settled its partitions, in the database that has the claims.
//!
//! Invariant: a row is moved forward only while the database is the one in which everything below
//! its new offset was committed. A failover or a restored copy ends every connection. So the
//! connection that reads a row is the one that moves it, and when it has to be opened anew,
//! nothing is moved before the rows were read again: a new *life* has begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{Database, Error};

use super::dialect::{Dialect, Options};
use super::slots::{Lease, Slots, within};
use super::transaction::{BESIDE, SqlStore, open};
use super::{StoreError, Tx};

const READING: &str = "reading the watermarks";
const CHANGING: &str = "changing watermarks";
const ADVANCING: &str = "moving the watermarks forward";

/// How far a group has settled a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The topic's id, if the brokers give one.
    pub topic_id: Option<String>,
    /// Where the group began to read it.
    pub began: i64,
    /// Everything below is settled.
    pub offset: i64,
    /// Keys of messages below may have been deleted.
    pub purged_to: i64,
}

/// What the database knows.
#[derive(Debug, Clone)]
pub struct Known {
    /// Of the connection: while it goes on, the database is the same and has lost nothing.
    pub life: u64,
    /// Of the tables: a copy has the same, tables made elsewhere have another.
    pub lineage: String,
    /// The rows that are there.
    pub rows: Vec<Watermark>,
}

/// A row to be made, or replaced if it is still as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// What was read.
    pub before: Option<Watermark>,
    /// What is to be.
    pub after: Watermark,
}

/// A step forward.
#[derive(Debug, Clone, Copy)]
pub struct Advance<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub partition: i32,
    /// The topic's id, as the row has it.
    pub topic_id: Option<&'a str>,
    /// What the row says at least, unless the database lost history.
    pub from: i64,
    /// What it is to say.
    pub to: i64,
}

/// What became of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advanced {
    /// Of each step, whether its row was there and as high as expected.
    Done(Vec<bool>),
    /// Nothing was written: the connection was opened anew, and this is its life.
    Anew(u64),
}

/// The SQL of watermarks, in the mirrored files `watermarks.rs` of the databases.
pub trait WatermarkSql: Database {
    /// What tells these tables from others of the same name, and their copies do not.
    fn lineage(conn: &mut Self::Connection) -> impl Future<Output = Result<String, Error>> + Send;
    /// The rows of these partitions.
    fn marks(
        conn: &mut Self::Connection,
        group: &str,
        partitions: &[(&str, i32)],
    ) -> impl Future<Output = Result<Vec<Watermark>, Error>> + Send;
    /// Makes a row: whether there was none.
    fn make_mark(
        conn: &mut Self::Connection,
        group: &str,
        after: &Watermark,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Replaces a row: whether it was as expected.
    fn replace_mark(
        conn: &mut Self::Connection,
        group: &str,
        before: &Watermark,
        after: &Watermark,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Moves rows forward: those that were as expected.
    fn advance_marks(
        conn: &mut Self::Connection,
        group: &str,
        steps: &[Advance<'_>],
    ) -> impl Future<Output = Result<Vec<(String, i32)>, Error>> + Send;
}

/// The connection of the watermarks, where one apart makes sense, and how often it was opened.
///
/// A database of one connection is a file, which nothing fails over.
pub(super) struct Marking<DB: Dialect> {
    slots: Option<Slots<DB>>,
    lives: AtomicU64,
}

impl<DB: Dialect> Marking<DB> {
    pub(super) fn new(options: &Options<DB>) -> Self {
        Self { slots: DB::CHAINS.then(|| Slots::new(options.clone(), 1)), lives: AtomicU64::new(0) }
    }

    fn life(&self) -> u64 {
        self.lives.load(Ordering::Relaxed)
    }
}

impl<DB: Dialect> SqlStore<DB> {
    async fn marking_lease(&self) -> Result<Lease<DB>, StoreError> {
        let Some(slots) = &self.marking.slots else { return self.slots.acquire().await };
        let lease = slots.acquire().await?;
        if !lease.kept {
            self.marking.lives.fetch_add(1, Ordering::Relaxed);
        }
        Ok(lease)
    }

    /// Every early return drops the transaction and its connection, and so ends its life.
    async fn begin_marking(&self, mut lease: Lease<DB>) -> Result<Tx<DB>, StoreError> {
        open(&mut lease, &BESIDE).await?;
        Ok(Tx::new(lease, BESIDE))
    }

    pub(super) async fn known_watermarks(&self, group: &str, partitions: &[(&str, i32)]) -> Result<Known, StoreError> {
        let mut tx = self.begin_marking(self.marking_lease().await?).await?;
        let life = self.marking.life();
        let reading = async {
            let (conn, _) = tx.parts();
            let failed = |error: Error| StoreError::driver::<DB>(READING, error);
            let lineage = DB::lineage(conn).await.map_err(failed)?;
            let rows = DB::marks(conn, group, partitions).await.map_err(failed)?;
            Ok(Known { life, lineage, rows })
        };
        let known = within(BESIDE.timeout, READING, reading).await?;
        self.end(tx, READING).await.map(|()| known)
    }

    pub(super) async fn changed_watermarks(&self, group: &str, changes: &[Revision]) -> Result<Vec<bool>, StoreError> {
        let mut tx = self.begin_marking(self.marking_lease().await?).await?;
        let writing = async {
            let (conn, _) = tx.parts();
            let mut made = vec![false; changes.len()];
            for (place, Revision { before, after }) in in_order(changes) {
                let done = match before {
                    None => DB::make_mark(conn, group, after).await,
                    Some(before) => DB::replace_mark(conn, group, before, after).await,
                };
                made[place] = done.map_err(|error: Error| StoreError::driver::<DB>(CHANGING, error))?;
            }
            Ok(made)
        };
        let made = within(BESIDE.timeout, CHANGING, writing).await?;
        self.end(tx, CHANGING).await.map(|()| made)
    }

    pub(super) async fn advanced(&self, life: u64, group: &str, steps: &[Advance<'_>]) -> Result<Advanced, StoreError> {
        let lease = self.marking_lease().await?;
        if self.marking.life() != life {
            lease.give_back();
            return Ok(Advanced::Anew(self.marking.life()));
        }
        let mut tx = self.begin_marking(lease).await?;
        let writing = async {
            let moved = DB::advance_marks(tx.parts().0, group, steps).await;
            moved.map_err(|error: Error| StoreError::driver::<DB>(ADVANCING, error))
        };
        let moved = within(BESIDE.timeout, ADVANCING, writing).await?;
        self.end(tx, ADVANCING).await?;
        let is_moved =
            |step: &Advance<'_>| moved.iter().any(|(topic, number)| topic == step.topic && *number == step.partition);
        Ok(Advanced::Done(steps.iter().map(is_moved).collect()))
    }
}

/// Changes with their places, in the order in which everybody locks rows: who moves several forward, and the purge.
fn in_order(changes: &[Revision]) -> Vec<(usize, &Revision)> {
    let mut ordered: Vec<_> = changes.iter().enumerate().collect();
    ordered.sort_by_key(|(_, Revision { after, .. })| (&after.topic, after.partition));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_in_the_order_of_topic_and_partition() {
        let change = |topic: &str, partition| {
            let after = Watermark { topic: topic.into(), partition, topic_id: None, began: 0, offset: 0, purged_to: 0 };
            Revision { before: None, after }
        };
        let changes = [change("b", 0), change("a", 10), change("a", 2), change("B", 7)];
        let places: Vec<usize> = in_order(&changes).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, [3, 2, 1, 0], "as bytes, and as numbers");
    }
}
