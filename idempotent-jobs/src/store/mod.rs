//! The database: claims, and the transaction lent to handlers.
//!
//! This folder alone knows SQL. The port and its words are here; what is the same for every
//! database is beside it (`slots`, `handle`, `transaction`), and the databases differ in
//! `postgres/` and `sqlite/`, files of the same names in the same order.
//!
//! The invariant, and where it is kept: a claim is durable exactly when the effects of its
//! handler are. `transaction` opens a savepoint with a name no handler knows and `commit`
//! releases it before COMMIT, which fails when the transaction is not the one that was opened or
//! is aborted. Ending the transaction is refused by the [handle](handle), and round it by the
//! database itself (a seal on PostgreSQL, a commit hook on SQLite). A connection about which
//! anything is in doubt is closed.

mod answers;
mod attempts;
mod claims;
mod commit;
mod describe;
mod dialect;
mod enqueue;
mod executor;
mod fault;
mod handle;
mod inspect;
mod letters;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod line;
mod migrate;
mod operate;
mod outcome;
mod parked;
#[cfg(feature = "postgres")]
mod postgres;
mod register;
mod relay;
mod retention;
mod savepoint;
mod slots;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement;
mod transaction;
mod watermarks;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use crate::context::Handle;
use crate::context::Isolation;
use crate::error::BoxError;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::message::Coordinates;

pub use self::answers::Transacted;
pub(crate) use self::answers::{Asked, Given, Part};
pub use self::attempts::{Attempted, Note, RECENT, Redrive, Redriven, SPAN, Taken, Taking, Tried};
pub use self::dialect::{Access, Dialect};
pub use self::enqueue::{EnqueueError, Enqueued, OutboxConnection, enqueue};
pub use self::handle::Tx;
pub use self::inspect::{
    Contents, Count, Database, Lanes, MOST, Marks, Outbox, Owners, RecordedJob, Tables, inspect, marks, standing,
};
pub use self::letters::{
    Again, Buried, Change, DeadLetter, Death, Filter, Foreseen, LetterSql, LetterState, LetterStore, PAGE as REQUESTS,
    Requested, Standing, Unkeyed, open_letters,
};
pub use self::operate::{Operate, SetAside, open_operate};
pub use self::parked::{Held, ParkSql, ParkedLane, Parking};
#[cfg(feature = "postgres")]
pub use self::postgres::{PgTx, PostgresStore, migrations_sql as postgres_migrations_sql};
pub use self::relay::{Failure, Kept, LEASE, Place, RelayStore, Row, Shard, Share, Wanted, open_relay};
pub use self::retention::{Begun, Bound, Purge, Purged, RetentionStore, Step, Walk, open_retention};
pub use self::savepoint::Savepoint;
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteStore, SqliteTx, migrations_sql as sqlite_migrations_sql};
pub use self::transaction::SqlStore;
pub use self::watermarks::{Advance, Advanced, Known, Revision, Watermark};

/// Parts of the outbox, each of which one relay sends at a time.
pub const SHARDS: u8 = 32;

/// What a URL of no known kind is told.
pub fn unknown_database() -> String {
    let mut known = Vec::new();
    if cfg!(feature = "postgres") {
        known.push("`postgres://…`");
    }
    if cfg!(feature = "sqlite") {
        known.push("`sqlite://…`");
    }
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(" or ") };
    format!(
        "the database URL is of no kind this build knows: it takes {known}; the features `postgres` and `sqlite` add kinds"
    )
}

/// How a job's transaction is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The isolation level, where the database has a choice.
    pub isolation: Isolation,
    /// The attempt's whole budget; statements are bounded by it in the database too.
    pub timeout: Duration,
}

/// The dedup insert.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The message's key for the job.
    pub key: &'a Key,
    /// The digest of what must not differ.
    pub fingerprint: Fingerprint,
    /// The id of the fingerprint's scheme.
    pub scheme: &'a str,
    /// The consumer group.
    pub group: &'a str,
    /// Where the message lies.
    pub at: &'a Coordinates,
}

/// What the dedup insert found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The key was free: it is this transaction's now.
    Fresh,
    /// The same message, or another with the same fingerprint, was here before.
    Duplicate,
    /// The same message, or another with the same fingerprint, is a dead letter.
    Dead,
    /// Another message used the key; the fingerprints are of different schemes and cannot be compared.
    Unverified,
    /// Another message with other content used the key, at these coordinates.
    Conflict {
        /// Its topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
    },
}

/// Whether the same work may succeed when it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The database or the way to it; costs no attempt.
    Transient,
    /// The work itself.
    Lasting,
}

/// A failure of the database.
///
/// Its words tell the whole chain, without values, and its `source` is a field alone: no one
/// who prints chains says it twice.
#[derive(Debug)]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    /// Whether it may pass.
    pub fault: Fault,
    /// What the database or the driver said.
    pub source: BoxError,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, describe::describe(&*self.source))
    }
}

impl StdError for StoreError {}

/// Why a transaction was not seen to commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A statement failed and the handler swallowed the error: all is rolled back.
    #[error(
        "a statement failed and the handler returned Ok all the same: the whole transaction is rolled back; \
         return the error with `?`, or run statements that may fail in a savepoint, `tx.begin()`{}",
        first.as_ref().map(|first| format!(" (first error: {first})")).unwrap_or_default()
    )]
    Swallowed {
        /// The first error that came through the handle, without values.
        first: Option<String>,
    },
    /// The handler ended, or tried to end, the transaction it was lent.
    #[error(
        "the handler ended, or tried to end, the transaction it was lent: \
         remove COMMIT, ROLLBACK and BEGIN from it, and use `tx.begin()` for a part that may be undone"
    )]
    EndedByHandler,
    /// A savepoint was left open.
    #[error("a savepoint of `tx.begin()` was neither committed nor rolled back nor dropped: all is rolled back")]
    SavepointLeft,
    /// The database refused: rolled back.
    #[error(transparent)]
    Refused(StoreError),
    /// No answer: committed or not, the claim decides at redelivery.
    #[error("no answer to COMMIT ({}): whether it is stored shows when the message is read again", describe::describe(&**.0))]
    Unknown(BoxError),
}

/// The transaction that was opened behind a COMMIT, and whether it holds the claim sent with it.
pub type Ahead<Tx> = Option<(Tx, bool)>;

/// How a rollback found the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rolled {
    /// As it was lent, or with its connection lost: nothing of it is stored.
    Back,
    /// Ended by the handler, whatever error it returned: never to be taken for a transient fault.
    EndedByHandler,
}

/// One registered job, as the `jobs` table holds it.
#[derive(Debug, Clone, Copy)]
pub struct JobRow<'a> {
    /// The job's name.
    pub name: &'a str,
    /// The consumer group.
    pub group: &'a str,
    /// The topic it reads.
    pub topic: &'a str,
    /// Names and kinds of its key's parts.
    pub key_form: &'a str,
    /// The id of its fingerprint scheme.
    pub scheme: &'a str,
    /// Whether another group or topic may use the same name.
    pub shared: bool,
}

/// The committed offset of a topic's partition for the worker's group, if one was committed.
pub type Committed<'a> = &'a (dyn Fn(&str, i32) -> Option<i64> + Send + Sync);

/// The port to a database.
///
/// Invariant: after `commit` or one of its kin returned `Ok`, the claim and every write made
/// through the handle are durable; after anything but `Ok` and `Unknown`, none is.
pub trait Store: Sized + Send + Sync + 'static {
    /// The handle lent to jobs.
    type Tx: Handle;
    /// Whether one transaction may follow another at once: not where it would keep a lock from
    /// everybody else.
    const CHAINS: bool;
    /// Connects, migrates (or finds the tables), checks.
    fn open(url: &str, connections: usize) -> impl Future<Output = Result<Self, StoreError>> + Send;
    /// How many transactions may run side by side.
    fn connections(&self) -> usize;
    /// Opens all connections, so that the first messages do not wait for them. What fails here is
    /// met again, and told, by whoever needs it.
    fn warm(&self) -> impl Future<Output = ()> + Send;
    /// Records the jobs; `committed(topic, partition)` gives the group's committed offset. Returns one refusal a problem.
    fn register(
        &self,
        jobs: &[JobRow<'_>],
        committed: Committed<'_>,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;
    /// Opens a job's transaction.
    fn begin(&self, terms: Terms) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send;
    /// The dedup insert. Waits for another transaction that holds the same key, within the terms.
    fn claim(&self, tx: &mut Self::Tx, claim: Claim<'_>) -> impl Future<Output = Result<Claimed, StoreError>> + Send;
    /// [`begin`](Self::begin) and [`claim`](Self::claim), in one trip where the database allows; an
    /// `open` transaction of these terms is used instead of a new one. The claim has its answer
    /// within the budget or two seconds, whichever is longer. An error before it is transient: no
    /// message is to blame.
    fn begin_and_claim(
        &self,
        open: Option<Self::Tx>,
        terms: Terms,
        claim: Claim<'_>,
        budget: Duration,
    ) -> impl Future<Output = Result<(Self::Tx, Claimed), StoreError>> + Send;
    /// Guard, then commit, within the budget or two seconds, whichever is longer: what a handler
    /// that ended in time has done is not thrown away for the last instants. The future must be
    /// polled to its end; dropped, it counts as `Unknown`.
    fn commit(&self, tx: Self::Tx, budget: Duration) -> impl Future<Output = Result<(), CommitError>> + Send;
    /// [`commit`](Self::commit), and the next transaction in the same trip. `None`: committed, but
    /// none was opened behind it, since isolation differs, or the handler left something that
    /// would show in it, or it failed to open, or the database [does not chain](Self::CHAINS). One
    /// that turns out not to be needed is rolled back at once, never left idle.
    fn commit_and_begin(
        &self,
        tx: Self::Tx,
        budget: Duration,
        next: Terms,
    ) -> impl Future<Output = Result<Option<Self::Tx>, CommitError>> + Send;
    /// [`commit_and_begin`](Self::commit_and_begin), and the next transaction's claim in the same
    /// trip. It is made at once or not at all: whoever has to wait for another transaction, or to
    /// know what is in the way, claims again. `None` also when the claim failed.
    fn commit_and_claim(
        &self,
        tx: Self::Tx,
        budget: Duration,
        next: Terms,
        claim: Claim<'_>,
    ) -> impl Future<Output = Result<Ahead<Self::Tx>, CommitError>> + Send;
    /// The dedup inserts of several messages of one job in one statement; their keys differ. What
    /// each found, in their order. Waits as a single claim does.
    fn claim_all(
        &self,
        tx: &mut Self::Tx,
        claims: &[Claim<'_>],
    ) -> impl Future<Output = Result<Vec<Claimed>, StoreError>> + Send;
    /// What claims of one job would find if they were made now: of those whose key is free,
    /// `Fresh`. Nothing is written, and nothing that is not committed is seen. Takes a connection
    /// of its own, as `begin` does: who holds a transaction and has no other connection left would
    /// wait for itself.
    fn seen(&self, claims: &[Claim<'_>]) -> impl Future<Output = Result<Vec<Claimed>, StoreError>> + Send;
    /// Writes a message that is given up as a dead letter, with its claim as dead, in a transaction of its
    /// own. Takes a connection as `begin` does. After an error that hides whether it was stored,
    /// the same call finds out.
    fn bury(&self, death: &Death<'_>) -> impl Future<Output = Result<Buried, StoreError>> + Send;
    /// [`bury`](Self::bury), on a connection apart from those of the workers, where they may be busy for long.
    fn bury_aside(&self, death: &Death<'_>) -> impl Future<Output = Result<Buried, StoreError>> + Send;
    /// Writes a message whole as a letter that waits in its lane, if that one waits, and has room for one of `limit`; in a
    /// transaction of its own, as [`bury`](Self::bury) does. Every error is transient.
    fn park(
        &self,
        death: &Death<'_>,
        lane: &[u8; 32],
        limit: u32,
    ) -> impl Future<Output = Result<Parking, StoreError>> + Send;
    /// Job and lane of all lanes of a partition that wait.
    fn parked(
        &self,
        group: &str,
        at: &Coordinates,
    ) -> impl Future<Output = Result<Vec<(String, Vec<u8>)>, StoreError>> + Send;
    /// Whether a lane waits, for a transaction that would run ahead of it.
    fn is_parked(
        &self,
        tx: &mut Self::Tx,
        group: &str,
        job: &str,
        at: &Coordinates,
        lane: &[u8; 32],
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
    /// Dead letters of a partition that have no claim, from an offset on: their messages are known by nothing
    /// else when they come again.
    fn unkeyed(&self, group: &str, from: &Coordinates)
    -> impl Future<Output = Result<Vec<Unkeyed>, StoreError>> + Send;
    /// Writes who owns partitions from now on, in one transaction, and finds out what their earlier owners left.
    /// `process` is what the names of all owners of this process begin with, and no other's. Takes a
    /// connection as `begin` does.
    fn take_over(
        &self,
        group: &str,
        process: &str,
        takings: &[Taking<'_>],
    ) -> impl Future<Output = Result<Vec<Taken>, StoreError>> + Send;
    /// The end of what [`take_over`](Self::take_over) wrote, where it is still this owner's.
    fn let_go(&self, group: &str, owned: &[Taking<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Writes what is to be remembered of an attempt, in a transaction of its own. Takes a connection as
    /// `begin` does.
    fn note(&self, tried: &Tried<'_>, note: Note<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Notes that a dead letter is about to be run again by this process, and what is known of it. `None`: it is
    /// not to be run, or not yet, or another process has it.
    fn note_redrive(&self, id: i64, process: &str)
    -> impl Future<Output = Result<Option<Redriven>, StoreError>> + Send;
    /// Notes the end of its run.
    fn redrive_ended(
        &self,
        id: i64,
        process: &str,
        ended: Redrive,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
    /// Notes that this process runs no dead letter.
    fn redrives_ended(&self, process: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Deletes what was noted of a claim's message, once this transaction is committed, and holds it until then.
    fn forget(&self, tx: &mut Self::Tx, claim: Claim<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Dead letters that these jobs are asked to run again, or that the group read from these topics and no job
    /// took: up to [`REQUESTS`] behind a number, in the order of theirs.
    fn requested(
        &self,
        after: i64,
        group: &str,
        jobs: &[&str],
        topics: &[&str],
    ) -> impl Future<Output = Result<Vec<Requested>, StoreError>> + Send;
    /// [`begin`](Self::begin), on a connection apart from those of the workers, where they may be busy for long.
    fn begin_aside(&self, terms: Terms) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send;
    /// One of the [requested](Self::requested), locked; `None` when it is no longer, or somebody else has it.
    fn take_letter(
        &self,
        tx: &mut Self::Tx,
        id: i64,
    ) -> impl Future<Output = Result<Option<DeadLetter>, StoreError>> + Send;
    /// The dedup insert of a dead letter that is run again, which takes over the claim that died with it.
    fn supersede(
        &self,
        tx: &mut Self::Tx,
        claim: Claim<'_>,
    ) -> impl Future<Output = Result<Claimed, StoreError>> + Send;
    /// Marks a letter that was taken as redriven, once this transaction is committed.
    fn redriven(
        &self,
        tx: &mut Self::Tx,
        id: i64,
        detail: Option<&str>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Opens a letter again whose message died again after so many attempts more, in a transaction of its own; with
    /// its key claimed as dead, if it has one by now. Whether it was still requested.
    fn reopen(&self, id: i64, again: &Again<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;
    /// When it had a connection: what waits for one has not begun.
    fn since(tx: &Self::Tx) -> Instant;
    /// The watermarks of a group's partitions, as topic and number, with what tells this database from others.
    /// These three have a connection of their own where the database has many, and take no worker's.
    fn watermarks(
        &self,
        group: &str,
        partitions: &[(&str, i32)],
    ) -> impl Future<Output = Result<Known, StoreError>> + Send;
    /// Makes or replaces watermarks that are still as they were read, in one transaction: of each whether it was.
    fn change_watermarks(
        &self,
        group: &str,
        changes: &[Revision],
    ) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send;
    /// Moves watermarks forward in one transaction, if the [life](Known::life) goes on in which all that they
    /// say was done.
    fn advance(
        &self,
        life: u64,
        group: &str,
        steps: &[Advance<'_>],
    ) -> impl Future<Output = Result<Advanced, StoreError>> + Send;
    /// Whether records were put into the outbox in it, for a relay to be told once it is committed.
    fn told(tx: &Self::Tx) -> bool;
    /// Why the transaction can serve no further job, for a person: what the last one did to it
    /// would show in the next.
    fn disturbed(tx: &Self::Tx) -> Option<&'static str>;
    /// Rolls back; a connection that is not surely clean is closed.
    fn rollback(&self, tx: Self::Tx) -> impl Future<Output = Rolled> + Send;
    /// The first SQL error that came through the handle, without values: what a handler swallowed
    /// is the cause of what fails later.
    fn first_error(tx: &Self::Tx) -> Option<&str>;
    /// Whether an error a handler returned is the database's own passing trouble.
    fn fault(error: &(dyn StdError + 'static)) -> Fault;
    /// What an error a handler returned says, `a: b: c`, without the values that the database
    /// quotes in the texts of data exceptions.
    fn describe(error: &(dyn StdError + 'static)) -> String {
        describe::describe(error)
    }
}
