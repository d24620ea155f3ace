//! Kafka: the consumer's thread, the producer, properties. (contract)

use std::sync::Arc;
use std::time::Instant;

use crate::error::Error;
use crate::message::Message;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition { pub topic: Arc<str>, pub number: i32 }

/// The next offset to read of a partition: everything below is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position { pub partition: Partition, pub offset: i64 }

/// Whether a partition can take more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room { Open, Full }

/// What the consumer's thread feeds. Called from that thread only; nothing here may wait
/// but `revoked`, and that until its deadline.
pub trait Intake: Send + Sync + 'static {
    /// New partitions: all pause state of them is forgotten, reading starts at the committed offset.
    fn assigned(&self, partitions: &[Partition]);
    /// Stops handing out, waits for running jobs until the deadline, returns what is settled and forgets the partitions.
    fn revoked(&self, partitions: &[Partition], deadline: Instant) -> Vec<Position>;
    /// The partitions were taken away without warning: forget them, commit nothing.
    fn lost(&self, partitions: &[Partition]);
    /// Takes a message, always; `Full` asks for a pause of its partition.
    fn accept(&self, message: Message) -> Room;
    /// Full partitions that have room again.
    fn relieved(&self) -> Vec<Partition>;
    /// Positions that moved since they were last confirmed.
    fn settled(&self) -> Vec<Position>;
    /// These positions were committed.
    fn committed(&self, positions: &[Position]);
    /// The client cannot go on.
    fn failed(&self, error: Error);
}
