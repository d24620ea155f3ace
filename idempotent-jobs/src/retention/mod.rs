//! How long keys are kept, and the purge of those that nobody can ask for any more.
//!
//! Invariant: **a message that is sent within the window of its key's first processing finds that key, however late it is
//! read.** A key that went too early is a payment made twice, one that stays too long is a row on a disk: whatever is in
//! doubt stays.
//!
//! A row of `processed` goes only if all of this holds, where *then* is a moment noted beforehand (`terms`):
//!
//! * It was processed a whole window before then; and before the oldest record of its topic, if one was still to be sent
//!   then, or kept to be sent again: that one may be a second of its key. The clock of a topic stands still meanwhile.
//! * Since then the group has committed the end of every partition of its topic as it was then. Whatever was sent by then
//!   has been read, and has met the key. A message that waits, is retried or snoozed holds its offset, and so the purge.
//!   What the topic deleted before it was read counts as read only while nobody can have it in memory: no worker owns the
//!   partition, and none of its messages waits for another attempt. Otherwise it waits for the partition's next message.
//! * Its own offset lies below the committed one of its partition, asked for in this very round; without an answer of the
//!   brokers nothing goes.
//! * No dead letter may still be run again with its key: none of its job and key that was not redriven, and none without a
//!   key that was sent less than a window after it and is not decided on.
//! * It is of this worker's group, of a topic the worker reads, and its job's name was never shared.
//!
//! Offsets can also be set back by hand. Then messages come again that are as old as the topic keeps them, and some of them
//! are resends. A window shorter than that, and the resend horizon, is refused (`rule`): when the worker starts, and
//! again before each sweep.
//!
//! Times of rows are the database's, and so is `now`; of its clock and this machine's the earlier one counts.

mod holdups;
mod rule;
mod sweep;
mod terms;

use std::time::Duration;

pub use self::rule::problems;
pub(crate) use self::sweep::clean;
pub use self::sweep::{Cleaner, Look, Swept, walk};

/// How long a worker's keys are kept, by which messages are known again.
///
/// By default they are kept [forever](Self::forever), and the table of them grows: some 200 bytes a message. With a
/// [window](Self::window), old ones are purged while the worker runs, in small steps. Give every worker of a group the
/// same: the shortest window counts.
///
/// ```
/// use std::time::Duration;
/// use idempotent_jobs::Retention;
///
/// const DAY: Duration = Duration::from_secs(86_400);
/// // A topic with Kafka's defaults delivers messages for up to 14 days: retention.ms and segment.ms are 7 days each.
/// let retention = Retention::window(30 * DAY).resend_horizon(16 * DAY);
/// # let _ = retention;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    window: Option<Duration>,
    horizon: Duration,
}

impl Retention {
    /// Nothing is purged.
    pub const fn forever() -> Self {
        Self { window: None, horizon: Duration::ZERO }
    }

    /// A key goes at the earliest so long after it was processed. A message with the same key that is sent within the
    /// window is a duplicate, however late it is read; one that is sent later runs again.
    ///
    /// The worker does not start when the window is shorter than `retention.ms` + `segment.ms` + [resend
    /// horizon](Self::resend_horizon) of a topic that it reads, when such a topic is compacted or keeps messages without
    /// an end, or when its settings cannot be read. When a topic's settings change later, nothing is purged until they
    /// fit again.
    pub const fn window(window: Duration) -> Self {
        Self { window: Some(window), horizon: Duration::ZERO }
    }

    /// How long after its first sending a key may be sent again, by a caller's retry or by hand; zero unless declared.
    ///
    /// While a group reads on, resends are caught within the whole window, with or without this. It matters when the
    /// group's offsets are set back by hand: then messages come again that are as old as their topic keeps them, and a
    /// resend among them needs the key of a message that is older by up to this. For one that waited in an outbox the time
    /// there counts.
    pub const fn resend_horizon(self, horizon: Duration) -> Self {
        Self { horizon, ..self }
    }

    /// The window, if there is one.
    pub(crate) const fn limit(&self) -> Option<Duration> {
        self.window
    }
}
