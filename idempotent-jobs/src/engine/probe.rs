//! Named points in the life of a message, for tests that stop or kill a process there.

use crate::message::Coordinates;

/// A point a message passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// The message is read and waits for its turn.
    Accepted,
    /// The claim is inserted, the handler not entered.
    Claimed,
    /// The handler returned `Ok`, nothing is committed.
    Handled,
    /// The transaction is committed, the offset is not.
    Committed,
    /// The message is committed as a dead letter, the offset is not.
    Buried,
    /// The message was seen before and skipped.
    Skipped,
    /// The database's watermark is above the message, Kafka's offset is not.
    Recorded,
    /// An offset at or above the message's is committed to Kafka.
    OffsetCommitted,
}

/// Told of every point. May block: the message then stands still there.
pub trait Probe: Send + Sync + 'static {
    /// `at` reached `point`.
    fn reached(&self, point: Point, at: &Coordinates);
}

/// The probe of production: nothing listens.
pub(crate) struct Unwatched;

impl Probe for Unwatched {
    fn reached(&self, _: Point, _: &Coordinates) {}
}
