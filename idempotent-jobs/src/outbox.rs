//! The transactional outbox: a row and the record that tells of it, both or neither.
//!
//! [`enqueue`] stores a record in the transaction of whoever calls it; a relay sends it once that
//! is committed, at least once, each time with the same key, so that the job which reads it runs
//! once. Enqueuing needs no Kafka, only the database: a web service that never speaks to
//! Kafka can do it. In a job, `tx.enqueue(&message)` does the same.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # mod example {
//! use idempotent_jobs::{JobMessage, outbox};
//!
//! #[derive(serde::Serialize, JobMessage)]
//! #[message(topic = "orders", key = "order_id", partition_by = "order_id")]
//! struct OrderPlaced { order_id: i64 }
//!
//! # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = pool.begin().await?;
//! sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(1_i64).execute(&mut *tx).await?;
//! outbox::enqueue(&mut *tx, &OrderPlaced { order_id: 1 }).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! # The same key twice
//! While a record is not sent, another one of the same topic and key is not stored again when it
//! says the same, and refused when it does not. Once it is sent, the same message may be enqueued
//! and sent again: the job that reads it knows it by its key.
//!
//! # Order
//! Of one topic and Kafka message key, records leave in the order in which their transactions
//! commit. For that a transaction takes a lock and holds it to its end: on PostgreSQL one of 256
//! advisory locks, by the digest of topic and Kafka message key
//! ([`pg_advisory_xact_lock`](https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS)),
//! however many records it enqueues. So:
//!
//! * Transactions that enqueue the same Kafka message key, and a few others by chance, wait for each
//!   other. Enqueue late in the transaction, and commit soon. A job need not mind: what it enqueues
//!   is stored at the end of its transaction, unless it is more than 1,000 records or 4 MiB.
//! * Two transactions that enqueue several keys in different order can deadlock; PostgreSQL ends
//!   one with 40P01. [`enqueue_all`] takes its locks sorted, and two transactions that call it
//!   once cannot, unless they enqueue the same dedup keys. Run your own transaction again when it happens; a
//!   job's is run again by its worker.
//! * Without a transaction, each statement is one: many records are then not stored together.
//! * What a job stores by [`enqueue`] on its bare connection goes before what it gives to `tx.enqueue`.
//! * [`Outgoing::unordered`](crate::Outgoing::unordered) takes no lock and keeps no order.
//!
//! On SQLite one transaction writes at a time, and nothing more is needed.
//!
//! # Without the relay
//! A change-data-capture router can read the table instead. For Debezium's
//! [outbox event router](https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html)
//! name the columns, and run no relay beside it:
//!
//! ```properties
//! table.include.list=idempotent_jobs.outbox
//! transforms=outbox
//! transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
//! transforms.outbox.table.field.event.id=key
//! transforms.outbox.table.field.event.key=partition_key
//! transforms.outbox.table.field.event.payload=payload
//! transforms.outbox.route.by.field=topic
//! transforms.outbox.route.topic.replacement=${routedByValue}
//! transforms.outbox.table.fields.additional.placement=key:header:idempotency-key,key_parts:header:idempotency-key-parts,event:header:event
//! key.converter=org.apache.kafka.connect.storage.StringConverter
//! value.converter=io.debezium.converters.BinaryDataConverter
//! ```
//!
//! Rows are then deleted by whoever runs it, `DELETE FROM idempotent_jobs.outbox WHERE enqueued_at < now() - interval '1 day'`
//! in batches. It knows nothing of `deliver_at`, of keys beyond 512 bytes (`long_key`) and of further headers.

mod operate;
pub(crate) mod relay;

use crate::error::Error;
use crate::outgoing::{IntoOutgoing, all};
use crate::store::{self, Store, StoreError, unknown_database};

pub use self::operate::{Outbox, SetAside};
pub use crate::store::{EnqueueError, Enqueued, OutboxConnection};

/// Stores a record in the caller's transaction: `&mut *tx` of an sqlx transaction, on PostgreSQL or
/// SQLite. Rolled back, it is gone.
///
/// The tables have to be there: a worker makes them at its first start, and so does [`migrate`].
///
/// # Errors
/// [`EnqueueError`]; on PostgreSQL nothing but a rollback is then possible, as after any error.
pub async fn enqueue<C: OutboxConnection>(
    connection: &mut C,
    message: impl IntoOutgoing,
) -> Result<Enqueued, EnqueueError> {
    let outgoing = message.into_outgoing()?;
    Ok(store::enqueue(connection, std::slice::from_ref(&outgoing)).await?[0])
}

/// Stores many records in few statements, and says of each, in their order, whether it is new.
///
/// # Errors
/// As of [`enqueue`]; of those before the one that failed, some are stored if the transaction is
/// committed all the same (SQLite).
pub async fn enqueue_all<C: OutboxConnection, M: IntoOutgoing>(
    connection: &mut C,
    messages: impl IntoIterator<Item = M>,
) -> Result<Vec<Enqueued>, EnqueueError> {
    store::enqueue(connection, &all(messages)?).await
}

/// Makes our tables, or brings them up to date: for a process that only enqueues and may be
/// the first one to start.
///
/// # Errors
/// [`Error::Start`] says why the database cannot be used.
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    expect(unreachable_code, reason = "no database is known")
)]
pub async fn migrate(database_url: &str) -> Result<(), Error> {
    let opened: Result<(), StoreError> = match database_url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => store::PostgresStore::open(database_url, 1).await.map(drop),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => store::SqliteStore::open(database_url, 1).await.map(drop),
        _ => return Err(Error::Start(vec![unknown_database()])),
    };
    opened.map_err(|error| Error::Start(vec![format!("the database cannot be used: {error}")]))
}
