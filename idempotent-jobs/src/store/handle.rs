//! The transaction as it is lent to a handler.

use std::fmt;
use std::marker::PhantomData;

use sqlx::{Database, Error, Execute, SqlStr};

use super::Terms;
use super::describe::brief;
use super::dialect::Dialect;
use super::enqueue::Held;
use super::savepoint::Savepoint;
use super::slots::{Lease, Session};
use super::statement::{self, Verdict};
use crate::context::Handle;

/// What anything after a cut is answered with.
pub(super) const CUT: &str = "a savepoint did not open, or the future that opens or closes one was dropped before \
     its end (by a timeout or `select!`): the transaction cannot go on, and the attempt fails. \
     Put the time limit round the whole handler, `#[idempotent_job(timeout = \"…\")]`";

/// The transaction of one attempt, lent to the handler: `PgTx` or `SqliteTx`.
///
/// Any query of sqlx takes it as `&mut *tx`. It owns its connection, has no commit and no
/// rollback, and refuses statements that end or begin a transaction: the handler returns
/// `Ok(())` to commit and an error to roll back. Dropped, as a cancelled attempt drops it, it
/// closes its connection and nothing is stored.
pub struct Tx<DB: Dialect> {
    pub(super) lease: Lease<DB>,
    pub(super) terms: Terms,
    pub(super) notes: Notes<DB>,
}

/// What went through a handle and matters when its transaction is closed.
pub(super) struct Notes<DB> {
    /// The first SQL error, without values.
    pub(super) first_error: Option<String>,
    /// The session is not what it was: it is closed after this transaction.
    pub(super) tainted: bool,
    /// The rest of the transaction is not what it was: the next one is.
    pub(super) local: bool,
    /// The bare connection was lent.
    pub(super) lent: bool,
    /// A statement that ends the transaction was refused.
    pub(super) refused: bool,
    /// The opening or closing of a savepoint was dropped on its way, or one did not open: the
    /// driver then rolls back on its own account, and what is left is not the transaction lent.
    pub(super) cut: bool,
    /// Records for the outbox.
    pub(super) held: Held,
    /// A savepoint was opened by SQL: nobody knows which records its rollback would undo.
    pub(super) marked: bool,
    /// How many savepoints are open.
    pub(super) open: usize,
    /// A savepoint was opened: the driver may still have its rollback to send.
    pub(super) parted: bool,
    /// The end of a statement was not waited for: its error may be the answer to the next one.
    pub(super) loose: bool,
    database: PhantomData<fn(DB)>,
}

impl<DB> Default for Notes<DB> {
    fn default() -> Self {
        Self {
            first_error: None,
            tainted: false,
            local: false,
            lent: false,
            refused: false,
            cut: false,
            held: Held::default(),
            marked: false,
            open: 0,
            parted: false,
            loose: false,
            database: PhantomData,
        }
    }
}

impl<DB: Dialect> Tx<DB> {
    pub(super) fn new(lease: Lease<DB>, terms: Terms) -> Self {
        Self { lease, terms, notes: Notes::default() }
    }

    /// Opens a savepoint: a part of the transaction that can be undone alone, and in which a
    /// statement may fail without failing the rest.
    ///
    /// Its future has to be polled to its end, and so have those of the savepoint's commit and
    /// rollback: dropped midway (by `tokio::time::timeout`, `select!`), the attempt fails.
    ///
    /// # Errors
    /// What the database says, for instance when an earlier statement failed; the transaction
    /// takes no further statement then.
    pub async fn begin(&mut self) -> Result<Savepoint<'_, DB>, Error> {
        Savepoint::open(&mut self.lease.session, &mut self.notes).await
    }

    /// Lends the bare connection, for helpers that ask for one.
    ///
    /// This is the way round the check of statements. It costs one or two round trips and the
    /// connection is closed after the attempt instead of being kept. The transaction still is
    /// the worker's: a COMMIT by a helper fails and rolls everything back, and after a ROLLBACK
    /// the attempt fails, whatever it returns. On PostgreSQL `SET CONSTRAINTS ALL IMMEDIATE`
    /// counts as such a COMMIT: name the constraints instead.
    ///
    /// # Errors
    /// What the database says, for instance when an earlier statement failed.
    pub async fn connection(&mut self) -> Result<&mut DB::Connection, Error> {
        lend(&mut self.lease.session, &mut self.notes).await
    }

    pub(super) fn parts(&mut self) -> (&mut DB::Connection, &mut Notes<DB>) {
        (&mut self.lease.session.conn, &mut self.notes)
    }
}

/// Seals the transaction anew, since a rollback to a savepoint may have broken an earlier seal,
/// and lends its connection.
pub(super) async fn lend<'t, DB: Dialect>(
    session: &'t mut Session<DB>,
    notes: &mut Notes<DB>,
) -> Result<&'t mut DB::Connection, Error> {
    notes.whole()?;
    notes.tainted = true;
    if let Some(sealing) = DB::sealing(&session.mark) {
        notes.cut = true;
        let sealed = DB::run(&mut session.conn, sealing).await;
        notes.cut = false;
        sealed.inspect_err(|error| notes.see(error))?;
    }
    notes.lent = true;
    Ok(&mut session.conn)
}

impl<DB: Dialect> Notes<DB> {
    /// Refuses what comes after a [cut](Self::cut).
    pub(super) fn whole(&self) -> Result<(), Error> {
        if self.cut { Err(Error::InvalidArgument(CUT.to_owned())) } else { Ok(()) }
    }

    /// Lets a statement through or says why not.
    pub(super) fn check(&mut self, sql: &str) -> Result<(), Error> {
        self.whole()?;
        match statement::inspect(sql, DB::SYNTAX) {
            Verdict::Clean => Ok(()),
            Verdict::Lasts => {
                self.local = true;
                self.marked |= statement::opens_savepoint(sql, DB::SYNTAX);
                Ok(())
            }
            Verdict::Taints => {
                self.tainted = true;
                self.marked |= statement::opens_savepoint(sql, DB::SYNTAX);
                Ok(())
            }
            Verdict::Refused(words) => {
                self.refused = true;
                Err(Error::InvalidArgument(statement::refusal(&words)))
            }
        }
    }

    /// Takes a query apart, checks its text, and puts it together again.
    pub(super) fn admit<'q>(&mut self, mut query: impl Execute<'q, DB>) -> Result<Admitted<DB>, Error> {
        let arguments = query.take_arguments().map_err(Error::Encode)?;
        let statement = query.statement().cloned();
        let persistent = query.persistent();
        let sql = query.sql();
        self.check(sql.as_str())?;
        Ok(Admitted { sql, statement, arguments, persistent })
    }

    /// A statement has ended.
    pub(super) fn end(&mut self, error: Option<&Error>) {
        self.loose = false;
        if let Some(error) = error {
            self.see(error);
        }
    }

    /// Remembers the first SQL error, and whether the session is to be kept.
    pub(super) fn see(&mut self, error: &Error) {
        if let Error::Database(error) = error {
            self.tainted |= DB::stale(&**error);
            if self.first_error.is_none() {
                self.first_error = Some(brief(&**error));
            }
        }
    }

    /// What a handler did that would show in the next job of the same transaction.
    pub(super) fn disturbed(&self) -> Option<&'static str> {
        [
            (self.refused, "it tried to end the transaction"),
            (self.lent, "it borrowed the bare connection, `tx.connection()`"),
            (self.cut, "the opening or closing of a savepoint was dropped on its way"),
            (self.open > 0, "it left a savepoint of `tx.begin()` open"),
            (self.tainted, "it changed the session (SET, PRAGMA, a temporary table, a session lock)"),
            (self.local, "it changed the rest of the transaction (SET LOCAL, SET TRANSACTION, DECLARE, SAVEPOINT)"),
            (self.loose, "it did not wait for the end of a statement"),
        ]
        .into_iter()
        .find_map(|(is, why)| is.then_some(why))
    }

    /// Whether a transaction that is no longer there was ended by the handler, and not by the
    /// failure of a statement: only the bare connection lets an ending statement through. Outside
    /// its transaction a session may not write, so that is what the first error then says.
    pub(super) fn ended_by_handler(&self) -> bool {
        let outside = |error: &String| error.starts_with("25006") || error.starts_with("25P01");
        self.lent || self.first_error.as_ref().is_none_or(outside)
    }
}

/// A query whose text was checked.
pub(super) struct Admitted<DB: Database> {
    sql: SqlStr,
    statement: Option<DB::Statement>,
    arguments: Option<DB::Arguments>,
    persistent: bool,
}

impl<DB: Database> Execute<'_, DB> for Admitted<DB> {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&DB::Statement> {
        self.statement.as_ref()
    }

    fn take_arguments(&mut self) -> Result<Option<DB::Arguments>, sqlx::error::BoxDynError> {
        Ok(self.arguments.take())
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

impl<DB: Dialect> Handle for Tx<DB> {
    const NAME: &'static str = DB::HANDLE;
    const DATABASE: &'static str = DB::DATABASE;
}

impl<DB: Dialect> fmt::Debug for Tx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DB::HANDLE)
    }
}
