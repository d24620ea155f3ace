//! The seal, the guard before COMMIT, and what their failures say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::error::DatabaseError;

use super::fault::primary;
use crate::store::dialect::Broken;

/// What the guard keeps beside a connection.
pub struct Guard {
    /// Read by the commit hook: whether this COMMIT is ours.
    pub(super) permitted: Arc<AtomicBool>,
    pub(super) _abandon: Abandon,
}

impl Guard {
    pub(super) fn permit(&self, commit: bool) {
        self.permitted.store(commit, Ordering::SeqCst);
    }
}

/// Dropped with its connection, tells a running statement to stop.
pub(super) struct Abandon(pub(super) Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Before COMMIT. RELEASE fails when this is not the transaction that was opened. The
/// seal is the commit hook, and `synchronous` cannot be changed within a transaction.
pub(super) fn closing(_: &Guard, mark: &str, _: bool, _: Option<Duration>) -> Vec<String> {
    vec![format!("RELEASE SAVEPOINT {mark}")]
}

/// What a failure of `closing` says. SQLite has no code for a savepoint that is not there, and
/// no aborted state: RELEASE of the one it was opened with fails for no other reason.
pub(super) fn broken(error: &dyn DatabaseError) -> Broken {
    if error.message().starts_with("no such savepoint") { Broken::Gone } else { Broken::Earlier }
}

/// A COMMIT that failed is no COMMIT, but after an IO error (SQLITE_IOERR) the log may hold it
/// all the same, and the next to open the file finds it.
pub(super) fn proves_rollback(error: &dyn DatabaseError) -> bool {
    primary(error) != 10
}
