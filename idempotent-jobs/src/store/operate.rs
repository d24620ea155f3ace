//! What an operator does to the outbox: looks at what was set aside, sends it again, gives it up.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Access, StoreError};

/// A record that was set aside: it waits for an operator, and records of its Kafka message key
/// behind it wait with it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// The topic.
    pub topic: String,
    /// The dedup key.
    pub key: String,
    /// The Kafka message key.
    pub partition_key: Option<String>,
    /// The event, if it has one.
    pub event: Option<String>,
    /// How often it was refused.
    pub attempts: u32,
    /// Why, the last time.
    pub error: String,
    /// How long ago it was enqueued.
    pub age: Duration,
    /// Bytes, roughly.
    pub size: usize,
}

/// Shows where it belongs and why it is here; keys name customers and orders.
impl std::fmt::Debug for SetAside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hash = crate::key::hash(self.key.as_bytes());
        write!(f, "SetAside(topic {}, key hash {hash}, {} attempts: {})", self.topic, self.attempts, self.error)
    }
}

/// The port. Keys are as they are stored.
#[async_trait]
pub trait Operate: Send + Sync + 'static {
    /// Records that were set aside, the oldest first.
    async fn set_aside(&self, limit: usize) -> Result<Vec<SetAside>, StoreError>;
    /// How many set-aside records of a topic there are, all or those of one key: what [`redrive`](Self::redrive) and
    /// [`discard`](Self::discard) would change.
    async fn count(&self, topic: &str, key: Option<&str>) -> Result<u64, StoreError>;
    /// Makes set-aside records of a topic ready again, all or those of one key; how many.
    async fn redrive(&self, topic: &str, key: Option<&str>) -> Result<u64, StoreError>;
    /// Deletes set-aside records of a topic, all or those of one key; how many.
    async fn discard(&self, topic: &str, key: Option<&str>) -> Result<u64, StoreError>;
    /// Puts kept sent records of a key back into the outbox; how many.
    async fn replay(&self, topic: &str, key: &str) -> Result<u64, StoreError>;
}

/// An operator's connection to the database of this URL.
///
/// # Errors
/// The database is of no kind this build knows, or cannot be used so.
pub async fn open_operate(url: &str, access: Access) -> Result<Arc<dyn Operate>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(super::postgres::PostgresOperate::open(url, access).await?)),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(super::sqlite::SqliteOperate::open(url, access).await?)),
        _ => Err(StoreError::lasting("reading DATABASE_URL", super::unknown_database())),
    }
}
