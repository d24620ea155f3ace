//! The order of effects, looked at end to end: messages of many keys, handlers that fail now and
//! then, members of the group that are struck down and come back, and one that joins and leaves.
//!
//! Each effect draws a number in its transaction. A lane runs one message of a key at a time,
//! so per key the numbers must rise with the offsets.

mod report;
mod scene;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::world::Topic;

pub use self::report::{HEADING, Row};
pub use self::scene::play;

/// How messages share transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One transaction a message.
    Single,
    /// `shared_tx`.
    Shared,
    /// A batch job.
    Batch,
}

/// Every way.
pub const WAYS: [Way; 3] = [Way::Single, Way::Shared, Way::Batch];

const PARTITIONS: i32 = 8;

impl Way {
    /// The topic of its job.
    pub fn topic(self) -> Topic {
        let name = match self {
            Self::Single => "ordered_single",
            Self::Shared => "ordered_shared",
            Self::Batch => "ordered_batch",
        };
        (name, PARTITIONS)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "one transaction a message",
            Self::Shared => "`shared_tx = 50`",
            Self::Batch => "`batch = 50`",
        })
    }
}

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// At least so many; a few more feed a member that has yet to join.
    pub messages: i64,
    pub keys: u64,
    pub concurrency: usize,
    /// How often one of the two members is struck and started again.
    pub blows: usize,
    /// How often a third one joins and leaves.
    pub visits: usize,
    pub seed: u64,
}

impl Plan {
    /// The Kafka key of a message.
    pub fn key(&self, id: i64) -> u64 {
        draw(self.seed, ("key", id)) % self.keys
    }
}

/// A number that looks random, the same for the same seed and words.
pub fn draw(seed: u64, what: impl Hash) -> u64 {
    // Its keys are fixed, unlike those of a map.
    let mut hasher = DefaultHasher::new();
    (seed, what).hash(&mut hasher);
    hasher.finish()
}

/// How a handler fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    Error,
    Panic,
    /// An SQL error that is not returned.
    Swallow,
    /// No answer within the timeout.
    Hang,
}

/// Of a thousand attempts, so many fail before their effect, and so many after it.
const FAILING: u64 = 10;

impl Mishap {
    /// What befalls an attempt at a message, before its effect or after it.
    pub fn of(seed: u64, id: i64, attempt: u32, after: bool) -> Option<Self> {
        let drawn = draw(seed, ("mishap", id, attempt, after));
        (drawn % 1000 < FAILING).then_some(match drawn / 1000 % 20 {
            0 => Self::Hang,
            1..=5 => Self::Panic,
            6..=9 => Self::Swallow,
            _ => Self::Error,
        })
    }
}
