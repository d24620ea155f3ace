//! Kafka job handlers made idempotent by declaration.
//!
//! Kafka delivers at least once, and the idempotent producer does not change that: it removes only
//! the doubles of its own network retries. A function under [`idempotent_job`] has its database
//! effects exactly once per key, because the key is claimed in the very transaction that holds the
//! effects, and the offset is committed after it.
//!
//! ```no_run
//! use idempotent_jobs::prelude::*;
//! # #[cfg(feature = "postgres")]
//! # mod example {
//! # use idempotent_jobs::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Charge { order_id: i64, amount_cents: i64 }
//!
//! #[idempotent_job(topic = "orders", key = "order_id")]
//! async fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
//!     sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
//!         .bind(job.order_id)
//!         .bind(job.amount_cents)
//!         .execute(&mut *tx)
//!         .await?;
//!     Ok(())
//! }
//! # }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), idempotent_jobs::Error> {
//!     idempotent_jobs::run().await
//! }
//! ```
//!
//! Covered are writes through the handle ([`Tx`]: `PgTx`, `SqliteTx`) and records put into the outbox, and
//! nothing else. Calls to the outside happen at least once: pass on [`Meta::external_key`], which stays the same on
//! every attempt and redelivery and differs from job to job, and let the receiver deduplicate.
//!
//! # Where to look
//! [`idempotent_job`] for the options of a job, [`KeyPart`] for what a key is made of, [`Extract`]
//! for what a job may ask for, [`Producer`] and [`JobMessage`] for the sending side, [`Worker`] for
//! more than [`run`] offers, [`once()`] for callers without Kafka, [`dead_letters`] for messages that cannot be
//! processed, [`telemetry`] for spans and metrics.

// A build without a database produces only: nothing there consumes.
#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, unused_mut, unused_variables, reason = "the consuming side has no database")
)]

#[doc(hidden)]
pub mod __private;

mod codec;
mod context;
pub mod dead_letters;
mod engine;
mod error;
mod extract;
mod fingerprint;
mod job;
mod job_id;
mod json;
mod kafka;
mod key;
mod message;
mod once;
pub mod outbox;
mod outgoing;
mod registry;
mod relay;
mod retry;
mod serve;
mod start;
mod store;
pub mod telemetry;
pub mod testing;
mod trace;
mod worker;

pub use crate::context::{Context, Handle, States};
pub use crate::error::{Error, Fate, JobError, JobResult, Reason, Terminal};
pub use crate::extract::{Extract, ExtractBatch, Meta, State};
pub use crate::job_id::JobId;
#[cfg(feature = "embedded")]
pub use crate::kafka::embedded;
pub use crate::kafka::{Delivery, OnGap, Producer, ProducerBuilder, SendError, SendErrorKind, Undelivered};
pub use crate::key::{KeyPart, KeyValue};
pub use crate::message::{
    Coordinates, EVENT_HEADER, Headers, IDEMPOTENCY_KEY_HEADER, IDEMPOTENCY_KEY_PARTS_HEADER, Message,
};
pub use crate::once::{Once, OnceError, OnceKey, once};
pub use crate::outgoing::{IntoOutgoing, JobMessage, Outgoing, Unsendable};
pub use crate::relay::{Relay, RelayBuilder};
#[cfg(feature = "postgres")]
pub use crate::store::{PgTx, postgres_migrations_sql};
pub use crate::store::{Savepoint, Transacted, Tx};
#[cfg(feature = "sqlite")]
pub use crate::store::{SqliteTx, sqlite_migrations_sql};
pub use crate::worker::{Worker, WorkerBuilder, run};
/// ```
/// # #[cfg(feature = "postgres")]
/// # mod example {
/// use idempotent_jobs::prelude::*;
/// # use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, KeyPart)]
/// enum Op { #[key("charge")] Charge, #[key("refund")] Refund }
///
/// #[derive(Serialize, Deserialize, KeyPart)]
/// struct OrderId(u64);
///
/// #[derive(Serialize, Deserialize, JobMessage)]
/// #[message(topic = "orders", key = "order_id, op", partition_by = "order_id", event = "charged")]
/// struct Charge { order_id: OrderId, op: Op, amount_cents: i64 }
///
/// /// Topic, key and event are those of the message.
/// #[idempotent_job]
/// async fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
///     sqlx::query("INSERT INTO charges (amount_cents) VALUES ($1)").bind(job.amount_cents).execute(&mut *tx).await?;
///     Ok(())
/// }
///
/// #[idempotent_job(
///     topic = "orders", key = "order_id, header(region)", name = "audit-orders", event = "charged",
///     compare = "amount_cents", retries = 3, backoff = "200ms..10s", timeout = "5s", isolation = serializable,
/// )]
/// async fn audit(tx: &mut PgTx, job: Charge, meta: Meta, headers: Headers) -> JobResult {
///     # let (_, _, _, _) = (tx, job, meta, headers);
///     Ok(())
/// }
///
/// /// One statement for up to 100 messages.
/// #[idempotent_job(name = "count", ordering = none, batch = 100)]
/// async fn count(tx: &mut PgTx, jobs: Vec<Charge>, metas: Vec<Meta>) -> JobResult {
///     let amounts: Vec<i64> = jobs.iter().map(|job| job.amount_cents).collect();
///     let keys: Vec<String> = metas.into_iter().map(|meta| meta.key).collect();
///     sqlx::query("INSERT INTO amounts (key, amount_cents) SELECT * FROM unnest($1::text[], $2::bigint[])")
///         .bind(keys)
///         .bind(amounts)
///         .execute(&mut *tx)
///         .await?;
///     Ok(())
/// }
/// # }
/// ```
pub use idempotent_jobs_macros::{JobMessage, KeyPart, idempotent_job};

/// Everything a file with jobs needs.
pub mod prelude {
    pub use crate::{
        Extract, Headers, JobError, JobId, JobMessage, JobResult, KeyPart, Meta, State, Terminal, idempotent_job,
    };

    #[cfg(feature = "postgres")]
    pub use crate::PgTx;
    #[cfg(feature = "sqlite")]
    pub use crate::SqliteTx;
}
