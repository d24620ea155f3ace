//! For tests of your jobs: the arguments a worker would give them.
//!
//! A job is an ordinary function. A test calls it with a handle made here, looks at what it wrote
//! through the same handle, and drops it: nothing is stored.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # mod example {
//! use idempotent_jobs::prelude::*;
//! use idempotent_jobs::testing;
//! # use serde::Deserialize;
//! # #[derive(Deserialize)]
//! # struct Charge { order_id: i64 }
//! # #[idempotent_job(topic = "orders", key = "order_id")]
//! # async fn charge(tx: &mut SqliteTx, job: Charge) -> JobResult {
//! #     sqlx::query("INSERT INTO charges (order_id) VALUES ($1)").bind(job.order_id).execute(&mut *tx).await?;
//! #     Ok(())
//! # }
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = testing::sqlite("sqlite://test.sqlite?mode=rwc").await?;
//! sqlx::query("CREATE TABLE charges (order_id INTEGER)").execute(&mut tx).await?;
//! charge(&mut tx, Charge { order_id: 1 }).await.expect("the job succeeds");
//! let charges: i64 = sqlx::query_scalar("SELECT count(*) FROM charges").fetch_one(&mut tx).await?;
//! assert_eq!(charges, 1);
//! # Ok(())
//! # }
//! # }
//! ```

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::time::Duration;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::context::Isolation;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::error::Error;
use crate::extract::Meta;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::store::{Store, StoreError, Terms};

/// A transaction on PostgreSQL as a worker lends it, without a claim. Dropped, it is rolled back.
///
/// The database gets our tables, as at a worker's first start.
///
/// # Errors
/// [`Error::Start`] says why the database cannot be used.
#[cfg(feature = "postgres")]
pub async fn postgres(url: &str) -> Result<crate::PgTx, Error> {
    begin::<crate::store::PostgresStore>(url).await
}

/// A transaction on SQLite as a worker lends it, without a claim. Dropped, it is rolled back.
///
/// The database gets our tables, as at a worker's first start. While the handle lives, nobody
/// else can write to the file.
///
/// # Errors
/// [`Error::Start`] says why the database cannot be used.
#[cfg(feature = "sqlite")]
pub async fn sqlite(url: &str) -> Result<crate::SqliteTx, Error> {
    begin::<crate::store::SqliteStore>(url).await
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
async fn begin<S: Store>(url: &str) -> Result<S::Tx, Error> {
    let refused = |error: StoreError| Error::Start(vec![format!("the database cannot be used: {error}")]);
    let terms = Terms { isolation: Isolation::default(), timeout: Duration::from_secs(30) };
    S::open(url, 1).await.map_err(refused)?.begin(terms).await.map_err(refused)
}

/// The records that a job gave to the outbox through this handle; the last thousand or fewer of them when
/// it gave a thousand or more.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # async fn example(tx: &mut idempotent_jobs::SqliteTx) {
/// use idempotent_jobs::testing;
///
/// let receipts = testing::enqueued(tx).iter().filter(|record| record.topic() == "receipts");
/// assert_eq!(receipts.count(), 1);
/// # }
/// ```
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub fn enqueued<DB: crate::store::Dialect>(tx: &crate::Tx<DB>) -> &[crate::Outgoing] {
    tx.held()
}

/// What a job that takes [`Meta`] is told of the first attempt at the message at offset 0 of
/// partition 0, for a job called `job`; its fields may be set.
pub fn meta(topic: &str, key: &str) -> Meta {
    Meta {
        job: "job".to_owned(),
        topic: topic.to_owned(),
        partition: 0,
        offset: 0,
        timestamp: None,
        attempt: 1,
        key: key.to_owned(),
    }
}
