//! Kafka: the consumer's thread, the producer, properties. Only here is `rdkafka` known.
//!
//! The consumer and the engine meet in [`Intake`]; neither knows the other.

mod checks;
mod consumer;
mod dispatch;
#[cfg(feature = "embedded")]
pub mod embedded;
mod environment;
mod facts;
mod faults;
mod gaps;
mod inspect;
mod keeping;
mod log;
mod membership;
mod native;
mod poller;
mod prefetch;
mod producer;
mod properties;
mod send_error;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::checks::{Topics, check, committed};
pub use self::consumer::{Consumer, ConsumerHandle, OnGap, Settings, Stopped};
pub use self::dispatch::{Declined, Dispatch, Fate, Parcel, Report};
pub use self::inspect::{Cluster, Group, Progress, Readers, Replicas, Topic, Unread, alike, inspect};
pub use self::keeping::{Keeping, Stand, Stands, keeping, read_out, stands};
pub use self::producer::{Delivery, Producer, ProducerBuilder, Record, Undelivered};
pub use self::properties::Properties;
pub use self::send_error::{SendError, SendErrorKind};

use crate::error::Error;
use crate::message::Message;

/// When `budget` will have passed; one too long for the clock is as good as for ever.
fn after(budget: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(budget.min(FOR_EVER)).unwrap_or(now)
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition, from 0.
    pub number: i32,
}

/// The next offset to read of a partition: everything below is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: Partition,
    /// What Kafka commits: the offset of the first message that is not settled.
    pub offset: i64,
}

/// What the brokers know of a partition that is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The partition.
    pub partition: Partition,
    /// The group's committed offset, and the [mark](Start::mark) beside it: empty when it was set by anything
    /// but a worker.
    pub committed: Option<(i64, String)>,
    /// Where the log starts.
    pub start: i64,
    /// Where it ends; known when nothing is committed, and when the position is in doubt.
    pub end: Option<i64>,
    /// The topic's id, where the brokers give one.
    pub topic_id: Option<String>,
    /// Whether a partition of which nothing is known is read from its end.
    pub latest: bool,
}

/// Where a partition is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The first offset to read.
    pub offset: i64,
    /// Kept in Kafka beside every committed offset of the partition.
    pub mark: Arc<str>,
}

/// Whether a partition can take more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The next message is welcome.
    Open,
    /// The partition is to be paused. Messages that librdkafka already handed out still come.
    Full,
}

/// What the consumer's thread feeds. Called from that thread only; nothing here may wait
/// but `revoked`, and that until its deadline.
pub trait Intake: Send + Sync + 'static {
    /// New partitions: all pause state of them is forgotten, reading starts at the committed offset.
    fn assigned(&self, partitions: &[Partition]);
    /// Whether the group counts on this member, which may have no partition all the same; told every second.
    fn member(&self, _: bool) {}
    /// Stops handing out, waits for running jobs until the deadline, returns what is settled and forgets the partitions.
    fn revoked(&self, partitions: &[Partition], deadline: Instant) -> Vec<Position>;
    /// The partitions were taken away without warning: forget them, commit nothing.
    fn lost(&self, partitions: &[Partition]);
    /// Takes a message, always; `Full` asks for a pause of its partition.
    fn accept(&self, message: Message) -> Room;
    /// Full partitions that have room again.
    fn relieved(&self) -> Vec<Partition>;
    /// Where to begin with a new partition. Asked again until it is answered; nothing of the partition is
    /// accepted before. An error ends the worker.
    fn start(&self, facts: &Facts) -> Option<Result<Start, String>> {
        let offset = facts.committed.as_ref().map(|(offset, _)| *offset).unwrap_or(match facts.end {
            Some(end) if facts.latest => end,
            _ => facts.start,
        });
        Some(Ok(Start { offset, mark: Arc::from("") }))
    }
    /// Partitions whose position is in doubt: what was accepted of them is forgotten, and it is asked again
    /// where to begin.
    fn doubted(&self) -> Vec<Partition> {
        Vec::new()
    }
    /// It is time to write down what is settled, so that it may be committed. Comes before [`settled`](Self::settled),
    /// which is asked until it has something.
    fn record(&self) {}
    /// Positions that may be committed and moved since they were last confirmed.
    fn settled(&self) -> Vec<Position>;
    /// These positions were committed.
    fn committed(&self, positions: &[Position]);
    /// The consumer's thread lives, and polls.
    ///
    /// Called on that thread after each turn of polling, from the start until the stop: every 50 ms
    /// when nothing comes, and after 256 messages when many do. Later than that only while another
    /// call of this trait has not returned, while a rebalance waits (`revoked`, and the commit
    /// behind it), and while a broker is asked that does not answer: for less than 4 s, or more where
    /// `fetch.wait.max.ms` is raised, since a question waits behind a fetch.
    /// Whoever slept finds the last call as old as the sleep until the thread polls again.
    fn polled(&self) {}
    /// The client cannot go on; no further message will be accepted.
    fn failed(&self, error: Error);
}
