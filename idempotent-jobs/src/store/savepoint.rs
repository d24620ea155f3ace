//! A part of a job's transaction that can be undone alone.

use std::fmt;

use sqlx::Error;
use sqlx_core::transaction::TransactionManager;

use super::dialect::Dialect;
use super::handle::{Notes, lend};
use super::slots::Session;

/// A savepoint in the transaction of a job, opened by `tx.begin()`.
///
/// It takes queries like the handle itself, with the same check. Dropped, it is rolled back.
/// Forgotten (`mem::forget`), it fails the attempt.
pub struct Savepoint<'t, DB: Dialect> {
    session: &'t mut Session<DB>,
    notes: &'t mut Notes<DB>,
    open: bool,
    /// Records for the outbox that were held when it was opened.
    held: usize,
}

impl<'t, DB: Dialect> Savepoint<'t, DB> {
    pub(super) async fn open(session: &'t mut Session<DB>, notes: &'t mut Notes<DB>) -> Result<Self, Error> {
        notes.whole()?;
        // Stays so when this is dropped or fails: sqlx then rolls back one level more than was
        // opened, and a commit of the enclosing savepoint would be COMMIT.
        notes.cut = true;
        notes.parted = true;
        match DB::TransactionManager::begin(&mut session.conn, None).await {
            Ok(()) => {
                notes.cut = false;
                notes.open += 1;
                let held = notes.held.len();
                Ok(Self { session, notes, open: true, held })
            }
            Err(error) => {
                notes.see(&error);
                Err(error)
            }
        }
    }

    /// Opens a savepoint within this one.
    ///
    /// # Errors
    /// What the database says, for instance when an earlier statement failed.
    pub async fn begin(&mut self) -> Result<Savepoint<'_, DB>, Error> {
        Savepoint::open(self.session, self.notes).await
    }

    /// Lends the bare connection, as [`Tx::connection`](super::Tx::connection) does.
    ///
    /// # Errors
    /// What the database says, for instance when an earlier statement failed.
    pub async fn connection(&mut self) -> Result<&mut DB::Connection, Error> {
        lend(self.session, self.notes).await
    }

    /// Keeps what was done since `begin`, for the transaction to commit or not.
    ///
    /// # Errors
    /// What the database says; when a statement failed since `begin`, only a rollback is left.
    pub async fn commit(self) -> Result<(), Error> {
        self.notes.whole()?;
        self.notes.cut = true;
        let done = DB::TransactionManager::commit(&mut self.session.conn).await;
        self.close(done)
    }

    /// Undoes what was done since `begin`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn rollback(self) -> Result<(), Error> {
        self.notes.whole()?;
        self.notes.cut = true;
        let done = DB::TransactionManager::rollback(&mut self.session.conn).await;
        self.notes.held.truncate(self.held);
        self.close(done)
    }

    fn close(mut self, done: Result<(), Error>) -> Result<(), Error> {
        self.notes.cut = false;
        match &done {
            Ok(()) => {
                self.open = false;
                self.notes.open -= 1;
            }
            Err(error) => self.notes.see(error),
        }
        done
    }

    pub(super) fn parts(&mut self) -> (&mut DB::Connection, &mut Notes<DB>) {
        (&mut self.session.conn, self.notes)
    }
}

impl<DB: Dialect> Drop for Savepoint<'_, DB> {
    fn drop(&mut self) {
        if self.open && !self.notes.cut {
            self.notes.open -= 1;
            self.notes.held.truncate(self.held);
            DB::TransactionManager::start_rollback(&mut self.session.conn);
        }
    }
}

impl<DB: Dialect> fmt::Debug for Savepoint<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Savepoint of {}", DB::HANDLE)
    }
}
