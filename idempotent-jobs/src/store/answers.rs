//! The claim of a caller without Kafka, and the answer that is stored with it.
//!
//! The invariant: a claim is committed exactly when its effect and its answer are, whoever commits
//! the transaction they are in. So claim, effect and answer are a [`Part`] of it, which is kept
//! whole or undone whole. A part that is dropped midway cannot wait for the database: where the
//! driver undoes it later it does, and elsewhere the database refuses to commit a claim that has
//! no answer.

use std::future::Future;

use sqlx::{Database, Error};

use super::dialect::{Broken, Dialect, depth};
use super::enqueue::hint;
use super::{Savepoint, StoreError, Tx};
use crate::fingerprint::Fingerprint;
use crate::key::Key;

const CLAIMING: &str = "claiming the key";
const ANSWERING: &str = "storing the answer";

/// What a caller asks to be done once.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Whose keys these are.
    pub scope: &'a str,
    /// The caller's key.
    pub key: &'a Key,
    /// The digest of the request.
    pub fingerprint: Fingerprint,
}

/// What the row that holds a key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The digest of the request that claimed the key.
    pub fingerprint: Vec<u8>,
    /// The answer it was given.
    pub answer: Option<Vec<u8>>,
}

/// Where databases differ in parts and answers.
pub trait Answers: Dialect {
    /// Whether parts are savepoints of the driver: one that was dropped may still be on its way back
    /// when the transaction is closed.
    const BY_DRIVER: bool;
    /// Opens a part. Dropped midway, it leaves the transaction as it was.
    fn open_part(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;
    /// Keeps what was done since. Fails when the transaction is not the one it was opened in, or
    /// when a statement failed in it.
    fn keep_part(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;
    /// Undoes what was done since, so that the transaction can go on.
    fn undo_part(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;
    /// The same for a part that was dropped, where the driver can do it later.
    fn drop_part(conn: &mut Self::Connection);
    /// The claim: whether a row was written. Waits for another transaction that holds the key.
    fn insert_answer(
        conn: &mut Self::Connection,
        asked: &Asked<'_>,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
    /// The row that stands in its way.
    fn look_answer(
        conn: &mut Self::Connection,
        asked: &Asked<'_>,
    ) -> impl Future<Output = Result<Option<Given>, Error>> + Send;
    /// Completes the claim: whether its row was there.
    fn write_answer(
        conn: &mut Self::Connection,
        asked: &Asked<'_>,
        answer: &[u8],
    ) -> impl Future<Output = Result<bool, Error>> + Send;
}

/// A connection in a transaction, as [`once`](crate::once()) takes it.
///
/// `&mut *tx` of an sqlx transaction is one (a `PgConnection`, a `SqliteConnection`), and so is the
/// handle of a job, a `PgTx` or a `SqliteTx`. Nothing else implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection in a transaction",
    label = "pass `&mut *tx` of an sqlx transaction on PostgreSQL or SQLite, or the handle of a job"
)]
pub trait Transacted: Lend {}

impl<C: Lend> Transacted for C {}

/// What lends a connection for statements of our own.
pub trait Lend: Send {
    /// The database.
    type Db: Answers;

    /// The connection; a handle whose transaction cannot go on refuses.
    fn lend(&mut self) -> Result<&mut <Self::Db as Database>::Connection, Error>;

    /// A part is about to be opened.
    fn opening(&mut self) {}

    /// It was opened. Gives how many records are held for the outbox.
    fn opened(&mut self) -> usize {
        0
    }

    /// It was kept.
    fn kept(&mut self) {}

    /// It was undone, and with it the records beyond those that were held before.
    fn undone(&mut self, _: usize) {}
}

#[cfg(feature = "postgres")]
impl Lend for sqlx::PgConnection {
    type Db = sqlx::Postgres;

    fn lend(&mut self) -> Result<&mut Self, Error> {
        Ok(self)
    }
}

#[cfg(feature = "sqlite")]
impl Lend for sqlx::SqliteConnection {
    type Db = sqlx::Sqlite;

    fn lend(&mut self) -> Result<&mut Self, Error> {
        Ok(self)
    }
}

macro_rules! lend {
    ($($handle:ty),+) => {$(
        impl<DB: Answers> Lend for $handle {
            type Db = DB;

            fn lend(&mut self) -> Result<&mut DB::Connection, Error> {
                let (conn, notes) = self.parts();
                notes.whole().map(|()| conn)
            }

            fn opening(&mut self) {
                self.parts().1.parted |= DB::BY_DRIVER;
            }

            fn opened(&mut self) -> usize {
                let (_, notes) = self.parts();
                notes.open += 1;
                notes.held.len()
            }

            fn kept(&mut self) {
                self.parts().1.open -= 1;
            }

            fn undone(&mut self, held: usize) {
                let (_, notes) = self.parts();
                notes.open -= 1;
                notes.held.truncate(held);
            }
        }
    )+};
}

lend!(Tx<DB>, Savepoint<'_, DB>);

/// A part of somebody's transaction. Dropped, none of it is stored.
pub(crate) struct Part<'t, C: Lend> {
    of: &'t mut C,
    /// Records for the outbox that were held when it was opened; `None` when it is closed.
    held: Option<usize>,
}

impl<'t, C: Lend> Part<'t, C> {
    /// Opens a part of the transaction that `of` is in.
    pub(crate) async fn open(of: &'t mut C) -> Result<Self, StoreError> {
        const DOING: &str = "opening a part of the transaction";
        let failed = |error| failed::<C::Db>(DOING, error);
        let conn = of.lend().map_err(failed)?;
        if depth::<C::Db>(conn) == 0 {
            return Err(StoreError::lasting(
                DOING,
                "the connection is in no transaction that sqlx has begun: begin one, pass `&mut *tx`, and commit it after",
            ));
        }
        of.opening();
        C::Db::open_part(of.lend().map_err(failed)?).await.map_err(failed)?;
        let held = Some(of.opened());
        Ok(Self { of, held })
    }

    /// Lends what it is a part of.
    pub(crate) fn lend(&mut self) -> &mut C {
        self.of
    }

    /// Claims the key, or finds who has it.
    pub(crate) async fn claim(&mut self, asked: &Asked<'_>) -> Result<Option<Given>, StoreError> {
        let failed = |error| failed::<C::Db>(CLAIMING, error);
        let conn = self.of.lend().map_err(failed)?;
        // Whether a row was written is the only signal. It also waits for whoever holds the key.
        if C::Db::insert_answer(conn, asked).await.map_err(failed)? {
            return Ok(None);
        }
        match C::Db::look_answer(conn, asked).await.map_err(failed)? {
            Some(given) => Ok(Some(given)),
            None => Err(StoreError::transient(
                CLAIMING,
                "the row that held the key cannot be seen: it was deleted meanwhile, or committed after this \
                 transaction had begun; roll back and begin again",
            )),
        }
    }

    /// Stores the answer beside the claim.
    pub(crate) async fn answer(&mut self, asked: &Asked<'_>, answer: &[u8]) -> Result<(), StoreError> {
        let conn = self.of.lend().map_err(broken::<C::Db>)?;
        if C::Db::write_answer(conn, asked, answer).await.map_err(broken::<C::Db>)? {
            return Ok(());
        }
        Err(StoreError::lasting(ANSWERING, ENDED))
    }

    /// Keeps what was done, for the transaction to commit or not.
    pub(crate) async fn keep(&mut self) -> Result<(), StoreError> {
        let conn = self.of.lend().map_err(broken::<C::Db>)?;
        C::Db::keep_part(conn).await.map_err(broken::<C::Db>)?;
        self.held = None;
        self.of.kept();
        Ok(())
    }

    /// Undoes what was done; the transaction can go on. Where that fails, the transaction is
    /// beyond use, as whoever goes on with it will be told.
    pub(crate) async fn undo(&mut self) {
        if let Ok(conn) = self.of.lend()
            && C::Db::undo_part(conn).await.is_ok()
            && let Some(held) = self.held.take()
        {
            self.of.undone(held);
        }
    }
}

impl<C: Lend> Drop for Part<'_, C> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.of.undone(held);
            if let Ok(conn) = self.of.lend() {
                C::Db::drop_part(conn);
            }
        }
    }
}

/// A failure before the effect.
fn failed<DB: Dialect>(doing: &'static str, error: Error) -> StoreError {
    match hint(&error) {
        "" => StoreError::driver::<DB>(doing, error),
        hint => StoreError::lasting(doing, format!("{error}{hint}")),
    }
}

const ENDED: &str = "the effect ended, or tried to end, the transaction it was lent: remove COMMIT, ROLLBACK and \
     BEGIN from it, and use `tx.begin()` for a part that may be undone";

const SWALLOWED: &str = "a statement of the effect failed and its error was swallowed: the whole effect is undone; \
     return the error with `?`, or run statements that may fail in a savepoint, `tx.begin()`";

/// What a failure says that comes after the effect.
fn broken<DB: Dialect>(error: Error) -> StoreError {
    match error.as_database_error().map(DB::broken) {
        Some(Broken::Aborted) => StoreError::lasting(ANSWERING, SWALLOWED),
        Some(Broken::Gone) => StoreError::lasting(ANSWERING, ENDED),
        _ => StoreError::driver::<DB>(ANSWERING, error),
    }
}
