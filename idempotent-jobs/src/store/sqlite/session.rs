//! A connection for job transactions, and how each of them opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{Sqlite, SqliteConnection};

use super::guard::{Abandon, Guard};
use crate::store::{StoreError, Terms};

/// Steps of SQLite's machine between two looks at whether anyone still waits for it.
const STEPS: i32 = 10_000;

/// Readies a new connection.
///
/// Its commit hook turns every COMMIT but our own into a ROLLBACK, that of a statement outside
/// any transaction included. Its progress handler interrupts a statement whose attempt was
/// dropped: the connection closes, and gives up the write lock, only when it has ended.
pub(super) async fn prepare(conn: &mut SqliteConnection) -> Result<Guard, StoreError> {
    let permitted = Arc::new(AtomicBool::new(false));
    let abandoned = Arc::new(AtomicBool::new(false));
    let mut handle =
        conn.lock_handle().await.map_err(|error| StoreError::driver::<Sqlite>("preparing a connection", error))?;
    let commit = Arc::clone(&permitted);
    handle.set_commit_hook(move || commit.load(Ordering::SeqCst));
    let interrupt = Arc::clone(&abandoned);
    handle.set_progress_handler(STEPS, move || !interrupt.load(Ordering::SeqCst));
    Ok(Guard { permitted, _abandon: Abandon(abandoned) })
}

/// IMMEDIATE: a transaction that begins by reading and then writes fails at once when another
/// process wrote in between, and no waiting helps. There is one isolation level, and the
/// database has no timeouts but the busy timeout of `open`.
pub(super) fn opening(_: &Terms, mark: &str, _: bool) -> String {
    format!("BEGIN IMMEDIATE; SAVEPOINT {mark}")
}
