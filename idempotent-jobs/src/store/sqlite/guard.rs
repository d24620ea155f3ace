//! The seal, the guard before COMMIT, and what their failures say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::error::DatabaseError;

use super::fault::primary;
use crate::store::dialect::Broken;

/// What the guard keeps beside a connection.
pub struct Guard {
    hooked: Arc<Hooked>,
    _abandon: Abandon,
}

/// What the connection's hooks read and write.
#[derive(Debug, Default)]
pub(super) struct Hooked {
    /// Whether the next COMMIT is ours.
    permitted: AtomicBool,
    /// Whether a transaction was rolled back since ours began: what is open now is another.
    ended: AtomicBool,
}

impl Hooked {
    /// Asked before a COMMIT that would write: whether it may.
    pub(super) fn commits(&self) -> bool {
        self.permitted.load(Ordering::SeqCst) && !self.ended.load(Ordering::SeqCst)
    }

    /// Told of every rollback of a whole transaction, a refused COMMIT's included.
    pub(super) fn rolled_back(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Guard {
    pub(super) fn new(hooked: Arc<Hooked>, abandon: Abandon) -> Self {
        Self { hooked, _abandon: abandon }
    }

    /// A transaction of ours begins.
    pub(super) fn begun(&self) {
        self.hooked.ended.store(false, Ordering::SeqCst);
    }

    pub(super) fn permit(&self, commit: bool) {
        self.hooked.permitted.store(commit, Ordering::SeqCst);
    }

    /// Whether the transaction that was begun is there no more.
    pub(super) fn ended(&self) -> bool {
        self.hooked.ended.load(Ordering::SeqCst)
    }
}

/// Dropped with its connection, tells a running statement to stop.
pub(super) struct Abandon(pub(super) Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Before COMMIT. RELEASE fails when this is not the transaction that was opened. `synchronous`
/// cannot be changed within a transaction.
pub(super) fn closing(_: &Guard, mark: &str, _: bool, _: Option<Duration>) -> Vec<String> {
    vec![format!("RELEASE SAVEPOINT {mark}")]
}

/// What a failure of `closing`, of COMMIT or of a rollback to the savepoint says. SQLite has no
/// code for a savepoint or a transaction that is not there, and no aborted state.
pub(super) fn broken(error: &dyn DatabaseError) -> Broken {
    let gone = ["no such savepoint", "cannot commit - no transaction"];
    let refused_by_hook = error.code().is_some_and(|code| code == "531");
    if refused_by_hook || gone.iter().any(|words| error.message().starts_with(words)) {
        Broken::Gone
    } else {
        Broken::Earlier
    }
}

/// A COMMIT that failed is no COMMIT, but after an IO error (SQLITE_IOERR) the log may hold it
/// all the same, and the next to open the file finds it.
pub(super) fn proves_rollback(error: &dyn DatabaseError) -> bool {
    primary(error) != 10
}
