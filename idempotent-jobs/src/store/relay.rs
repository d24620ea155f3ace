//! The relay's port to the database: reading what is to be sent, and telling what became of it.
//!
//! The invariant, and where it is kept: of one partition key records leave in the order of commit.
//! Enqueueing draws ids behind a lock that is held to commit; [`due`](RelayStore::due) gives rows
//! by state and never by a cursor over ids, in the order of ids, and none behind one of its key
//! that failed; a shard has one owner at a time, by the database's clock alone.
//!
//! No transaction is open while a broker is waited for: every call here is one short transaction.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;

/// For so long a shard is owned unless its owner says so again.
pub const LEASE: Duration = Duration::from_secs(4);

/// The channel on which enqueueing wakes relays.
#[cfg(feature = "postgres")]
pub(super) const CHANNEL: &str = "idempotent_jobs_outbox";

/// The number of a part of the outbox, below [`SHARDS`](super::SHARDS).
pub type Shard = i16;

/// Where a row is found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its part of the outbox.
    pub shard: Shard,
    /// Its number, never given twice.
    pub id: i64,
}

/// A record that is to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it is found again.
    pub place: Place,
    /// The topic.
    pub topic: String,
    /// The dedup key, whole.
    pub key: String,
    /// The names of the fields that the key is made of.
    pub key_parts: String,
    /// The event, if it has one.
    pub event: Option<String>,
    /// The Kafka message key.
    pub partition_key: Option<String>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Further headers, in wire order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Whether it keeps the order of its partition key.
    pub ordered: bool,
    /// Bytes, roughly.
    pub size: usize,
    /// Failures of this very record so far.
    pub attempts: u32,
}

impl Row {
    /// What logs show instead of the key.
    pub fn key_hash(&self) -> String {
        crate::key::hash(self.key.as_bytes())
    }
}

/// Shows where it is, never what it says.
impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Row({}, shard {}, id {})", self.topic, self.place.shard, self.place.id)
    }
}

/// What a relay asks for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of these shards.
    pub shards: Vec<Shard>,
    /// Without these rows, which it has.
    pub except: Vec<i64>,
    /// Without these topics, whose records do not move.
    pub except_topics: Vec<String>,
    /// With topics left out: of each shard, so many rows are looked at. To step over all of a
    /// large backlog would hold up everything else.
    pub walk: Option<usize>,
    /// At most so many.
    pub rows: usize,
    /// Until so many bytes are reached; at least one row.
    pub bytes: usize,
}

impl Wanted {
    /// How many rows one shard may give: twice its part, so that a hot one leaves room for others
    /// and is not held to their pace.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn per_shard(&self) -> i64 {
        let part = self.rows.div_ceil(self.shards.len().max(1)).saturating_mul(2);
        i64::try_from(part.clamp(1, self.rows.max(1))).unwrap_or(i64::MAX)
    }

    /// `walk` as SQL has it.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn longest_walk(&self) -> Option<i64> {
        self.walk.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX))
    }
}

/// A row that the brokers refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The row.
    pub place: Place,
    /// Why, for a person; without payload and key.
    pub error: String,
    /// After so long it may be sent again. `None`: it is set aside.
    pub again: Option<Duration>,
}

/// What a relay owns once it has said that it lives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// How many relays live, itself included.
    pub live: usize,
    /// Shards that were its own and still are: nobody else had them in between.
    pub renewed: Vec<Shard>,
    /// Shards that it got now.
    pub taken: Vec<Shard>,
}

/// How many shards a relay may own when so many live.
pub type Share = fn(live: usize) -> usize;

/// What a relay asks of the database. Every call is bounded by the caller; a connection whose
/// call failed or was dropped is closed, and the next call opens another.
#[async_trait]
pub trait RelayStore: Send + Sync + 'static {
    /// Rows that may be sent, in the order of their ids: those of a full shard take no other's
    /// place. None that lies behind one of its ordered partition key that failed and is not ready again.
    async fn due(&self, wanted: &Wanted) -> Result<Vec<Row>, StoreError>;
    /// Makes rows ready whose time has come, of any shard; how many.
    async fn promote(&self) -> Result<u64, StoreError>;
    /// Kafka has these rows: they go, or are kept among the sent ones. It is true whoever owns
    /// the shard now, and telling it twice does nothing.
    async fn sent(&self, places: &[Place], keep: bool) -> Result<(), StoreError>;
    /// Forgets some sent rows that are older; how many. Fewer than a thousand: there are no more.
    async fn purge(&self, older: Duration) -> Result<u64, StoreError>;
    /// Records failures of rows whose shards `relay` owns; those of others are none of its business.
    async fn failed(&self, relay: &str, failures: &[Failure]) -> Result<(), StoreError>;
    /// Moves rows that lie behind a set-aside one of their partition key out of the way of
    /// [`due`](Self::due), and those back before which none is any more; how many. Fewer than a
    /// thousand: there are no more.
    async fn hold(&self, shards: &[Shard]) -> Result<u64, StoreError>;
    /// The relay lives: what it owns is its own for another [`LEASE`], and of what nobody owns it
    /// takes as much as its share lacks. `asleep`: it wants to be woken by enqueueing.
    async fn keep(&self, relay: &str, asleep: bool, share: Share) -> Result<Kept, StoreError>;
    /// Gives shards back.
    async fn release(&self, relay: &str, shards: &[Shard]) -> Result<(), StoreError>;
    /// Gives everything back: the relay ends.
    async fn leave(&self, relay: &str) -> Result<(), StoreError>;
    /// How long the oldest row of these shards has been ready.
    async fn oldest(&self, shards: &[Shard]) -> Result<Option<Duration>, StoreError>;
    /// Waits until something was enqueued, where the database can tell; otherwise for ever.
    async fn woken(&self) -> Result<(), StoreError>;
}

/// The relay's connections to the database of this URL, whose tables are brought up to date.
///
/// # Errors
/// The database is of no kind this build knows, or cannot be used.
pub async fn open_relay(url: &str) -> Result<Arc<dyn RelayStore>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(super::postgres::PostgresRelay::open(url).await?)),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(super::sqlite::SqliteRelay::open(url).await?)),
        _ => Err(StoreError::lasting("reading DATABASE_URL", super::unknown_database())),
    }
}
