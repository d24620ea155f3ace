//! Stores records in the outbox, in somebody's transaction.
//!
//! Invariant: of one topic and Kafka message key, the order of ids is the order of commit, since the id is drawn
//! behind a lock that is held to the end of the transaction.

use sqlx::Error;

use super::Tx;
use super::describe::describe;
use super::dialect::Dialect;
use super::handle::Notes;
use super::savepoint::Savepoint;
use crate::fingerprint::Scheme;
use crate::outgoing::{IntoOutgoing, Outgoing, Unsendable};

/// Records of one statement at most.
const TOGETHER: usize = 1_000;

/// Their bytes, roughly.
const BYTES: usize = 4 << 20;

/// Times that a record in the way may be sent while it is looked at.
const LOOKS: usize = 5;

/// What became of a record that was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It is stored.
    Stored,
    /// The same message is there and not sent yet: that one will be, with the headers and at the
    /// time that it was given first. One that was set aside waits to be redriven.
    AlreadyThere,
}

/// Why a record is not in the outbox.
///
/// `Debug` prints the same text as `Display`, with the database's own: it is what a `main`
/// returning it shows.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The message cannot become a record.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
    /// Another message of the same topic and key is waiting to be sent, and says something else.
    #[error(
        "topic {topic}, key hash {key_hash}: another message with this key and other content waits in the outbox, \
         or was set aside there: its key is too narrow, or one of the two is wrong"
    )]
    Conflict {
        /// The topic.
        topic: String,
        /// 8 bytes of the key's digest in hex.
        key_hash: String,
    },
    /// The record in the way was sent, and another put in its place, again and again.
    #[error("topic {topic}, key hash {key_hash}: the outbox changed under the record again and again: try later")]
    Busy {
        /// The topic.
        topic: String,
        /// 8 bytes of the key's digest in hex.
        key_hash: String,
    },
    /// A savepoint was opened by an SQL statement: what its rollback undoes cannot be known here.
    #[error("records are not enqueued once a savepoint was opened by SQL: open it by `tx.begin()`")]
    Savepoint,
    /// The database refused, or is away.
    #[error("the outbox cannot be written{}", hint(.0))]
    Database(#[source] Error),
}

impl std::fmt::Debug for EnqueueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&describe(self))
    }
}

/// The tables are not there: no table, schema or constraint on PostgreSQL.
pub(super) fn hint(error: &Error) -> &'static str {
    let missing = |error: &dyn sqlx::error::DatabaseError| {
        error.code().is_some_and(|code| ["42P01", "3F000", "42704"].contains(&&*code))
            || error.message().starts_with("no such table")
    };
    if error.as_database_error().is_some_and(missing) {
        ": its tables are not there; start a worker once, or call `outbox::migrate`"
    } else {
        ""
    }
}

/// A connection that records can be enqueued on: sqlx's `PgConnection` and `SqliteConnection`, and
/// nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no connection to an outbox",
    label = "write `&mut *tx` for an sqlx transaction on PostgreSQL or SQLite"
)]
pub trait OutboxConnection: sqlx::Connection<Database = Self::Db> {
    /// Its database.
    #[doc(hidden)]
    type Db: Dialect<Connection = Self>;
}

#[cfg(feature = "postgres")]
impl OutboxConnection for sqlx::PgConnection {
    type Db = sqlx::Postgres;
}

#[cfg(feature = "sqlite")]
impl OutboxConnection for sqlx::SqliteConnection {
    type Db = sqlx::Sqlite;
}

/// Stores the records in their order: what became of each.
///
/// # Errors
/// Of the first that could not be stored.
pub async fn enqueue<C: OutboxConnection>(conn: &mut C, records: &[Outgoing]) -> Result<Vec<Enqueued>, EnqueueError> {
    records.iter().try_for_each(check)?;
    store::<C::Db>(conn, records).await
}

/// What can be said of a record before the database is asked.
fn check(record: &Outgoing) -> Result<(), Unsendable> {
    if record.partition_key.as_ref().is_some_and(|key| key.contains('\0')) {
        let detail = "its Kafka message key has a NUL in it, which databases do not store in a text".to_owned();
        return Err(Unsendable { topic: record.topic().to_owned(), detail });
    }
    Ok(())
}

async fn store<DB: Dialect>(conn: &mut DB::Connection, records: &[Outgoing]) -> Result<Vec<Enqueued>, EnqueueError> {
    let mut all = Some(stripes(records));
    let mut done = Vec::with_capacity(records.len());
    for chunk in chunks(records) {
        // All the locks come with the first, in one order for everybody. The others take their own
        // once more: outside a transaction those of before are gone.
        let locks = all.take().unwrap_or_else(|| stripes(chunk));
        let stored = DB::enqueue(conn, chunk, &locks).await.map_err(EnqueueError::Database)?;
        for (record, stored) in chunk.iter().zip(stored) {
            done.push(if stored { Enqueued::Stored } else { again::<DB>(conn, record).await? });
        }
    }
    Ok(done)
}

/// The locks of all, sorted.
fn stripes(records: &[Outgoing]) -> Vec<i32> {
    let mut stripes: Vec<i32> =
        records.iter().filter(|record| record.ordered).map(|record| i32::from(record.stripe())).collect();
    stripes.sort_unstable();
    stripes.dedup();
    stripes
}

/// Consecutive records for one statement: those of equal further headers and due times, which are given once for all.
fn chunks(records: &[Outgoing]) -> impl Iterator<Item = &[Outgoing]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut bytes = 0;
        let alike = |record: &&Outgoing| {
            bytes += record.size();
            bytes <= BYTES
                && record.headers == first.headers
                && record.due == first.due
                && record.ordered == first.ordered
        };
        let together = rest.iter().take(TOGETHER).take_while(alike).count().max(1);
        let (chunk, more) = rest.split_at(together);
        rest = more;
        Some(chunk)
    })
}

/// A record in whose way another is.
async fn again<DB: Dialect>(conn: &mut DB::Connection, record: &Outgoing) -> Result<Enqueued, EnqueueError> {
    let key_hash = || record.key.hash();
    for _ in 0..LOOKS {
        if let Some(waiting) = DB::waiting(conn, record).await.map_err(EnqueueError::Database)? {
            if waiting.says(record) {
                return Ok(Enqueued::AlreadyThere);
            }
            return Err(EnqueueError::Conflict { topic: record.topic().to_owned(), key_hash: key_hash() });
        }
        // It was sent meanwhile.
        let record = std::slice::from_ref(record);
        let stored = DB::enqueue(conn, record, &stripes(record)).await.map_err(EnqueueError::Database)?;
        if stored == [true] {
            return Ok(Enqueued::Stored);
        }
    }
    Err(EnqueueError::Busy { topic: record.topic().to_owned(), key_hash: key_hash() })
}

/// What waits under a record's key.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting {
    event: Option<String>,
    partition_key: Option<String>,
    payload: Option<Vec<u8>>,
}

/// The columns of [`Waiting`].
pub(super) type Row = (Option<String>, Option<String>, Option<Vec<u8>>);

impl From<Row> for Waiting {
    fn from((event, partition_key, payload): Row) -> Self {
        Self { event, partition_key, payload }
    }
}

impl Waiting {
    /// Whether it is the same message: by the wire value, of which the order of members is no part.
    fn says(&self, record: &Outgoing) -> bool {
        let scheme = Scheme::new(&[]);
        let same_payload = match (&self.payload, &record.payload) {
            (Some(mine), Some(theirs)) => {
                mine == theirs
                    || scheme
                        .fingerprint(mine)
                        .is_ok_and(|mine| scheme.fingerprint(theirs).is_ok_and(|theirs| mine == theirs))
            }
            (mine, theirs) => mine == theirs,
        };
        same_payload && self.event.as_deref() == record.event && self.partition_key == record.partition_key
    }
}

/// Records of a transaction that are to be stored at its end.
///
/// At its end, so that their locks are taken in one order, once, and held for the last two trips
/// only. Transactions of many jobs would otherwise end in deadlocks all the time.
#[derive(Debug, Default)]
pub(super) struct Held {
    records: Vec<Outgoing>,
    bytes: usize,
    /// Some are stored already.
    stored: bool,
    /// Why some that were taken are neither held nor stored.
    pub(super) lost: Option<String>,
}

impl Held {
    fn push(&mut self, record: Outgoing) {
        self.bytes += record.size();
        self.records.push(record);
    }

    fn is_full(&self) -> bool {
        self.records.len() >= TOGETHER || self.bytes >= BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Forgets those of a savepoint that is rolled back.
    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes -= self.records.drain(len..).map(|record| record.size()).sum::<usize>();
    }

    /// Whether there are any, stored or not.
    pub(super) fn told(&self) -> bool {
        self.stored || !self.records.is_empty()
    }
}

/// Stores what is held.
pub(super) async fn flush<DB: Dialect>(conn: &mut DB::Connection, notes: &mut Notes<DB>) -> Result<(), EnqueueError> {
    if notes.held.records.is_empty() {
        return Ok(());
    }
    let dropped = Some("the future of `enqueue` was dropped before its end".to_owned());
    let left = Held { stored: true, lost: dropped, ..Held::default() };
    let Held { records, .. } = std::mem::replace(&mut notes.held, left);
    notes.loose = true;
    let stored = store::<DB>(conn, &records).await;
    notes.loose = false;
    notes.held.lost = stored.as_ref().err().map(ToString::to_string);
    if let Err(EnqueueError::Database(error)) = &stored {
        notes.see(error);
    }
    stored.map(drop)
}

async fn hold<DB: Dialect>(
    conn: &mut DB::Connection,
    notes: &mut Notes<DB>,
    message: impl IntoOutgoing,
) -> Result<(), EnqueueError> {
    let outgoing = message.into_outgoing()?;
    check(&outgoing)?;
    notes.whole().map_err(EnqueueError::Database)?;
    if notes.marked {
        return Err(EnqueueError::Savepoint);
    }
    notes.held.push(outgoing);
    // Not within a savepoint, which would take those of before with it.
    if notes.held.is_full() && notes.open == 0 { flush(conn, notes).await } else { Ok(()) }
}

impl<DB: Dialect> Tx<DB> {
    /// Gives a record to the outbox: it leaves once this transaction is committed, at least once, each
    /// time with the same key. See [`outbox`](crate::outbox).
    ///
    /// It is held in memory and stored with the others at the end of the transaction; a thousand
    /// of them are stored at once. So that a [conflict](EnqueueError::Conflict) mostly shows when
    /// the attempt is committed, and fails it.
    ///
    /// # Errors
    /// [`EnqueueError`]: return it by `?`.
    pub async fn enqueue(&mut self, message: impl IntoOutgoing) -> Result<(), EnqueueError> {
        let (conn, notes) = self.parts();
        hold(conn, notes, message).await
    }

    /// [`enqueue`](Self::enqueue) of many, in their order.
    ///
    /// # Errors
    /// [`EnqueueError`]: return it by `?`.
    pub async fn enqueue_all<M: IntoOutgoing>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<(), EnqueueError> {
        for message in messages {
            self.enqueue(message).await?;
        }
        Ok(())
    }

    /// What is held for the end of the transaction.
    pub(crate) fn held(&self) -> &[Outgoing] {
        &self.notes.held.records
    }
}

impl<DB: Dialect> Savepoint<'_, DB> {
    /// Gives a record to the outbox, as [`Tx::enqueue`] does. Rolled back with the savepoint, it is gone.
    ///
    /// # Errors
    /// [`EnqueueError`]: return it by `?`.
    pub async fn enqueue(&mut self, message: impl IntoOutgoing) -> Result<(), EnqueueError> {
        let (conn, notes) = self.parts();
        hold(conn, notes, message).await
    }
}
