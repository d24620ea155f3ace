//! The database: claims, and the transaction lent to handlers. (contract)

use std::future::Future;
use std::time::Duration;

use crate::context::Handle;
use crate::error::BoxError;
use crate::fingerprint::Fingerprint;
use crate::context::Isolation;
use crate::message::Coordinates;
use crate::key::Key;

/// How a job's transaction is opened.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub isolation: Isolation,
    /// The attempt's whole budget; statements are bounded by it in the database too.
    pub timeout: Duration,
}

/// The dedup insert.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    pub job: &'a str,
    pub key: &'a Key,
    pub fingerprint: Fingerprint,
    pub scheme: &'a str,
    pub group: &'a str,
    pub at: &'a Coordinates,
}

/// What the dedup insert found.
#[derive(Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The key was free: it is this transaction's now.
    Fresh,
    /// The same message, or another with the same fingerprint, was here before.
    Duplicate,
    /// Another message used the key; the fingerprints are of different schemes and cannot be compared.
    Unverified,
    /// Another message with other content used the key, at these coordinates.
    Conflict { topic: String, partition: i32, offset: i64 },
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
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct StoreError { pub doing: &'static str, pub fault: Fault, #[source] pub source: BoxError }

/// Why a transaction was not seen to commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A statement failed and the handler swallowed the error: all is rolled back.
    #[error("…")] Swallowed { first: Option<String> },
    /// The handler ended the transaction it was lent.
    #[error("…")] EndedByHandler,
    /// A savepoint was left open.
    #[error("…")] SavepointLeft,
    /// The database refused: rolled back.
    #[error(transparent)] Refused(StoreError),
    /// No answer: committed or not, the claim decides at redelivery.
    #[error("…")] Unknown(#[source] BoxError),
}

/// One registered job, as the `jobs` table holds it.
pub struct JobRow<'a> { pub name: &'a str, pub group: &'a str, pub topic: &'a str, pub key_form: &'a str, pub scheme: &'a str, pub shared: bool }

/// The port to a database.
///
/// Invariant: after `commit` returned `Ok`, the claim and every write made through the handle
/// are durable; after it returned anything but `Ok` and `Unknown`, none is.
pub trait Store: Sized + Send + Sync + 'static {
    /// The handle lent to jobs.
    type Tx: Handle;
    /// Connects, migrates (or finds the tables), checks.
    fn open(url: &str, connections: usize) -> impl Future<Output = Result<Self, StoreError>> + Send;
    /// How many transactions may run side by side.
    fn connections(&self) -> usize;
    /// Records the jobs; `committed(topic, partition)` gives the group's committed offset. Returns one refusal a problem.
    fn register(&self, jobs: &[JobRow<'_>], committed: &(dyn Fn(&str, i32) -> Option<i64> + Send + Sync)) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;
    /// Opens a job's transaction.
    fn begin(&self, terms: Terms) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send;
    /// The dedup insert.
    fn claim(&self, tx: &mut Self::Tx, claim: Claim<'_>) -> impl Future<Output = Result<Claimed, StoreError>> + Send;
    /// Guard, then commit.
    fn commit(&self, tx: Self::Tx, budget: Duration) -> impl Future<Output = Result<(), CommitError>> + Send;
    /// Rolls back; a connection that is not surely clean is closed.
    fn rollback(&self, tx: Self::Tx) -> impl Future<Output = ()> + Send;
    /// Whether an error a handler returned is the database's own passing trouble.
    fn fault(error: &(dyn std::error::Error + 'static)) -> Fault;
}
