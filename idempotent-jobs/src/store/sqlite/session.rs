//! A connection for job transactions, and how each of them opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{Sqlite, SqliteConnection};

use super::guard::{Abandon, Guard, Hooked};
use crate::store::{StoreError, Terms};

/// Steps of SQLite's machine between two looks at whether anyone still waits for it.
const STEPS: i32 = 10_000;

/// Readies a new connection.
///
/// Its commit hook turns every COMMIT but our own into a ROLLBACK, that of a statement outside
/// any transaction included, and its rollback hook notes that our transaction is gone, whatever
/// is opened in its place. Its progress handler interrupts a statement whose attempt was
/// dropped: the connection closes, and gives up the write lock, only when it has ended.
pub(super) async fn prepare(conn: &mut SqliteConnection) -> Result<Guard, StoreError> {
    let hooked = Arc::new(Hooked::default());
    let abandoned = Arc::new(AtomicBool::new(false));
    let mut handle =
        conn.lock_handle().await.map_err(|error| StoreError::driver::<Sqlite>("preparing a connection", error))?;
    let committing = Arc::clone(&hooked);
    handle.set_commit_hook(move || committing.commits());
    let rolling_back = Arc::clone(&hooked);
    handle.set_rollback_hook(move || rolling_back.rolled_back());
    let interrupt = Arc::clone(&abandoned);
    handle.set_progress_handler(STEPS, move || !interrupt.load(Ordering::SeqCst));
    Ok(Guard::new(hooked, Abandon(abandoned)))
}

/// IMMEDIATE: a transaction that begins by reading and then writes fails at once when another
/// process wrote in between, and no waiting helps. There is one isolation level, and the
/// database has no timeouts but the busy timeout of `open`.
pub(super) fn opening(_: &Terms, mark: &str, _: bool) -> String {
    format!("BEGIN IMMEDIATE; SAVEPOINT {mark}")
}
