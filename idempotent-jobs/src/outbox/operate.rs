//! For those who operate an outbox.

use std::sync::Arc;

use crate::error::Error;
use crate::key::stored;
use crate::store::{Access, Operate, StoreError, open_operate};

pub use crate::store::SetAside;

/// The outbox in the hands of an operator: what was set aside, and how it is sent again or given up.
///
/// ```no_run
/// # async fn example() -> Result<(), idempotent_jobs::Error> {
/// use idempotent_jobs::outbox::Outbox;
///
/// let outbox = Outbox::connect("postgres://…").await?;
/// for record in outbox.set_aside(100).await? {
///     println!("{record:?}");
/// }
/// outbox.redrive("orders", None).await?;
/// # Ok(())
/// # }
/// ```
pub struct Outbox(Arc<dyn Operate>);

impl Outbox {
    /// Connects to the database, whose tables are made if they are not there.
    ///
    /// # Errors
    /// [`Error::Start`] says why it cannot be used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::open(url, Access::Change).await
    }

    /// The same for a role that may only read, on PostgreSQL: it needs `USAGE` on the schema `idempotent_jobs` and
    /// `SELECT` on its tables. Nothing is brought up to date, and nothing can be changed.
    ///
    /// # Errors
    /// [`Error::Start`] says why it cannot be used, such as tables that are not up to date.
    pub async fn connect_to_read(url: &str) -> Result<Self, Error> {
        Self::open(url, Access::Read).await
    }

    pub(crate) async fn open(url: &str, access: Access) -> Result<Self, Error> {
        let refused = |error| Error::Start(vec![format!("the database cannot be used: {error}")]);
        open_operate(url, access).await.map(Self).map_err(refused)
    }

    /// Up to `limit` records that were set aside, the oldest first, without their payloads.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn set_aside(&self, limit: usize) -> Result<Vec<SetAside>, Error> {
        self.0.set_aside(limit).await.map_err(database)
    }

    /// How many records of a topic, or of one key of it, were set aside: as many [`redrive`](Self::redrive) and
    /// [`discard`](Self::discard) would change.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn count(&self, topic: &str, key: Option<&str>) -> Result<u64, Error> {
        self.0.count(topic, key.map(stored).as_deref()).await.map_err(database)
    }

    /// Sends records again that were set aside, of a topic or of one key of it, as if they had never
    /// been tried; how many. They keep their place in the order of their Kafka message key.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn redrive(&self, topic: &str, key: Option<&str>) -> Result<u64, Error> {
        self.0.redrive(topic, key.map(stored).as_deref()).await.map_err(database)
    }

    /// Gives up records that were set aside, of a topic or of one key of it; how many. They are
    /// gone, and what waits behind them goes on.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn discard(&self, topic: &str, key: Option<&str>) -> Result<u64, Error> {
        self.0.discard(topic, key.map(stored).as_deref()).await.map_err(database)
    }

    /// Sends a record once more that was sent, with the same key, for a receiver that lost it; how
    /// many. A relay that [keeps](crate::RelayBuilder::keep_sent) what it sent must have sent it,
    /// lately enough. Jobs that did have it skip it as a duplicate.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn replay(&self, topic: &str, key: &str) -> Result<u64, Error> {
        self.0.replay(topic, &stored(key)).await.map_err(database)
    }
}

fn database(error: StoreError) -> Error {
    Error::Database(error.to_string())
}
