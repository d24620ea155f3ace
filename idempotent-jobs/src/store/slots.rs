//! The worker's own connections, apart from any pool the user holds.
//!
//! A pool pings a connection each time it comes back and may hand out one that a cancelled
//! BEGIN left inside a transaction. Here a connection comes back only from a transaction that
//! was seen to end; any other is dropped, which closes it.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::TryFutureExt;
use sqlx::{ConnectOptions, Connection, Database};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::StoreError;
use super::dialect::{Chain, Dialect, Options};

/// The time a database has to take a connection, and again to make it ready.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// The time it has for a statement of a start, with the wait for another process's lock, which
/// the databases end before (10 s on PostgreSQL, 5 s on SQLite).
pub(super) const ANSWER: Duration = Duration::from_secs(15);

/// The same for a step that may go through a large table.
pub(super) const SCAN: Duration = Duration::from_secs(600);

/// A connection made ready for job transactions. Dropped, it is closed.
pub(super) struct Session<DB: Dialect> {
    pub(super) guard: DB::Guard,
    pub(super) conn: DB::Connection,
    /// Name of the guard's savepoint and token of the seal: drawn for each connection, so that
    /// no handler can name it by accident.
    pub(super) mark: String,
    /// The timeout of the terms whose limits the session has by itself; others are set for a
    /// transaction alone, at a price for each.
    pub(super) settled: Option<Duration>,
    /// What closes a transaction and opens one of the settled terms.
    pub(super) chain: Option<Chain>,
}

/// A session and the slot it takes up, which is free once the connection is closed or back.
pub(super) struct Lease<DB: Dialect> {
    pub(super) session: Session<DB>,
    /// Whether a transaction ran on it before.
    pub(super) kept: bool,
    /// When the slot and its connection were there.
    pub(super) since: Instant,
    /// Where it goes back to.
    home: Idle<DB>,
    slot: OwnedSemaphorePermit,
}

type Idle<DB> = Arc<Mutex<Vec<Session<DB>>>>;

/// A fixed number of connections, opened when they are first needed.
pub(super) struct Slots<DB: Dialect> {
    pub(super) options: Options<DB>,
    free: Arc<Semaphore>,
    idle: Idle<DB>,
    size: usize,
}

impl<DB: Dialect> Slots<DB> {
    pub(super) fn new(options: Options<DB>, size: usize) -> Self {
        // The driver's log shows whole statements, and with a claim sent as text a key.
        let options = options.disable_statement_logging();
        Self { options, free: Arc::new(Semaphore::new(size)), idle: Arc::default(), size }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Waits for a slot, first come, first served, and for its connection.
    pub(super) async fn acquire(&self) -> Result<Lease<DB>, StoreError> {
        let slot = Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed");
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let kept = idle.is_some();
        let session = match idle {
            Some(session) => session,
            None => self.open().await?,
        };
        Ok(Lease { session, kept, since: Instant::now(), home: Arc::clone(&self.idle), slot })
    }

    /// The same slot with a new connection; the old one is closed.
    pub(super) async fn renew(&self, lease: Lease<DB>) -> Result<Lease<DB>, StoreError> {
        let Lease { session, home, slot, .. } = lease;
        drop(session);
        Ok(Lease { session: self.open().await?, kept: false, since: Instant::now(), home, slot })
    }

    async fn open(&self) -> Result<Session<DB>, StoreError> {
        let mut conn = connect::<DB>(&self.options).await?;
        let guard = within(CONNECT, "preparing a connection", DB::prepare(&mut conn)).await?;
        let mark = mark();
        let chain = DB::chain(&guard, &mark, None);
        Ok(Session { guard, conn, mark, settled: None, chain })
    }
}

impl<DB: Dialect> Lease<DB> {
    /// Gives back a connection whose transaction was seen to end.
    pub(super) fn give_back(self) {
        let Self { session, home, slot, .. } = self;
        home.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        // Only now: whoever waits for the slot is to find the connection.
        drop(slot);
    }
}

/// A bare connection, within the time a database has for it.
pub(super) async fn connect<DB: Dialect>(options: &Options<DB>) -> Result<<DB as Database>::Connection, StoreError> {
    const DOING: &str = "connecting to the database";
    let connecting = options.connect().map_err(|error| StoreError::driver::<DB>(DOING, error));
    within(CONNECT, DOING, connecting).await
}

/// Ends what the database, or the way to it, leaves without an answer.
pub(super) async fn within<T>(
    limit: Duration,
    doing: &'static str,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match timeout(limit, answer).await {
        Ok(done) => done,
        Err(_) => Err(StoreError::transient(doing, format!("no answer within {limit:?}"))),
    }
}

/// Closes a connection politely, for the server's log: nothing depends on it.
pub(super) async fn part<DB: Dialect>(conn: <DB as Database>::Connection) {
    let _ = timeout(CONNECT, conn.close()).await;
}

fn mark() -> String {
    let mut mark = String::from("idempotent_jobs_");
    write!(mark, "{:016x}", rand::random::<u64>()).expect("a String takes everything");
    mark
}
