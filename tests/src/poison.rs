//! A stream with poison of every kind in it, and workers that are killed while they read it.
//!
//! A good message has its effect once, in the order of its key; a bad one has one dead letter, with the right
//! reason and byte for byte what was sent; and no good one has a letter.

mod report;
mod scene;
mod stream;

use serde::{Deserialize, Serialize};

use crate::order::draw;
use crate::world::Topic;

pub use self::report::{HEADING, Row};
pub use self::scene::play;

/// The topic of its job.
pub const POISONED: Topic = ("poisoned", 8);

/// What is bad about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bad {
    /// No JSON.
    Undecodable,
    /// Without the field of its key.
    Keyless,
    /// Its handler says that no retry can help.
    Terminal,
    /// Its handler panics.
    Panic,
    /// Its handler ends the process.
    Abort,
    /// The key of an earlier message, with other content.
    Conflict,
    /// As large as a broker takes, and terminal.
    Large,
    /// A null payload.
    Tombstone,
    /// Its handler does not end.
    Hang,
}

/// All but the one that ends its process, of which there are few: each ends several.
const COMMON: [Bad; 8] =
    [Bad::Undecodable, Bad::Keyless, Bad::Terminal, Bad::Panic, Bad::Conflict, Bad::Large, Bad::Tombstone, Bad::Hang];

impl Bad {
    /// What a message is; one of a hundred is bad.
    fn of(plan: &Plan, id: i64) -> Option<Self> {
        if plan.killers.contains(&id) {
            return Some(Self::Abort);
        }
        let drawn = draw(plan.seed, ("bad", id));
        drawn.is_multiple_of(100).then(|| COMMON[(drawn / 100 % COMMON.len() as u64) as usize])
    }

    /// The reason its dead letter must give.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Undecodable => "decode",
            Self::Keyless => "key_missing",
            Self::Terminal | Self::Large => "terminal",
            Self::Panic | Self::Hang => "exhausted",
            Self::Abort => "killed_process",
            Self::Conflict => "conflict",
            Self::Tombstone => "tombstone",
        }
    }
}

/// What is played.
#[derive(Debug, Clone)]
pub struct Plan {
    pub messages: i64,
    /// Of Kafka; each is a lane.
    pub keys: u64,
    pub concurrency: usize,
    /// How often one of the two workers is killed; those that end by themselves are not counted.
    pub kills: usize,
    /// The ids of messages that end their process.
    pub killers: Vec<i64>,
    pub seed: u64,
}

impl Plan {
    /// Draws the messages that end their process.
    pub fn new(messages: i64, keys: u64, kills: usize, killers: usize, seed: u64) -> Self {
        let one = |nth: usize| {
            let id = draw(seed, ("killer", nth)) % messages.unsigned_abs();
            i64::try_from(id).expect("less than the messages")
        };
        Self { messages, keys, concurrency: 16, kills, killers: (0..killers).map(one).collect(), seed }
    }

    /// The Kafka key of a message.
    pub fn key(&self, id: i64) -> u64 {
        draw(self.seed, ("key", id)) % self.keys
    }
}
