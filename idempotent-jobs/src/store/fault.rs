//! Whether an error is the database's own passing trouble.

use std::error::Error as StdError;
use std::io;

use sqlx::Error;
use sqlx::error::DatabaseError;

use super::describe::{chain, database};
use super::{Dialect, Fault, StoreError};
use crate::error::BoxError;

/// How the driver's errors begin that wrap another.
const IO: &str = "error communicating with database: ";
const TLS: &str = "error occurred while attempting to establish a TLS connection: ";

/// The fault of whatever a handler returned, by the first database error in its chain.
pub(super) fn of_chain<DB: Dialect>(error: &(dyn StdError + 'static)) -> Fault {
    let known = |error: &(dyn StdError + 'static)| {
        if let Some(error) = database(error) {
            return Some(of_database::<DB>(error));
        }
        let driver = error.downcast_ref::<Error>().map(of::<DB>);
        driver.or_else(|| error.downcast_ref::<StoreError>().map(|error| error.fault))
    };
    chain(error).find_map(known).unwrap_or_else(|| of_words(error))
}

/// The fault of one error of the driver.
pub(super) fn of<DB: Dialect>(error: &Error) -> Fault {
    match error {
        Error::Database(error) => of_database::<DB>(&**error),
        error if lost(error) => Fault::Transient,
        _ => Fault::Lasting,
    }
}

/// The fault of what the server said. Another database's words, by a pool of the handler's own,
/// would be misread: their codes are other codes.
fn of_database<DB: Dialect>(error: &(dyn DatabaseError + 'static)) -> Fault {
    error.try_downcast_ref::<DB::Failure>().map_or(Fault::Lasting, DB::fault)
}

/// The fault of an error of the driver that `anyhow` hides: what is converted into a boxed error
/// gives away the sources and the words of what it holds, but not its type. An IO error alone
/// does not tell: it may be that of a service the handler calls.
fn of_words(error: &(dyn StdError + 'static)) -> Fault {
    let words = error.to_string();
    let bare = [Error::PoolTimedOut, Error::WorkerCrashed, Error::BeginFailed];
    let io = || error.source().is_some_and(<dyn StdError>::is::<io::Error>) && words.starts_with(IO);
    let lost = bare.iter().any(|error| error.to_string() == words) || words.starts_with(TLS) || io();
    if lost { Fault::Transient } else { Fault::Lasting }
}

/// Whether the driver, not the server, says that the connection cannot be used.
///
/// A protocol error is not among them: the driver also reports statements by it that can never
/// work, such as one with too many parameters. A closed connection is an IO error.
pub(super) fn lost(error: &Error) -> bool {
    matches!(error, Error::Io(_) | Error::Tls(_) | Error::PoolTimedOut | Error::WorkerCrashed | Error::BeginFailed)
}

impl StoreError {
    /// A failure of the driver.
    pub(super) fn driver<DB: Dialect>(doing: &'static str, error: Error) -> Self {
        Self { doing, fault: of::<DB>(&error), source: Box::new(error) }
    }

    /// A failure of the driver in a step that waits for the locks of other processes.
    pub(super) fn waiting<DB: Dialect>(doing: &'static str, error: Error) -> Self {
        let failure = error.as_database_error().and_then(|error| error.try_downcast_ref::<DB::Failure>());
        if failure.is_some_and(DB::held) {
            return Self::transient(doing, format!("another process or session holds a lock on the tables: {error}"));
        }
        Self::driver::<DB>(doing, error)
    }

    /// A failure that passes.
    pub(crate) fn transient(doing: &'static str, source: impl Into<BoxError>) -> Self {
        Self { doing, fault: Fault::Transient, source: source.into() }
    }

    /// The caller waited long enough.
    pub(crate) fn unanswered(limit: std::time::Duration) -> Self {
        Self::transient("waiting for the database", format!("no answer within {limit:?}"))
    }

    /// A failure that does not.
    pub(super) fn lasting(doing: &'static str, source: impl Into<BoxError>) -> Self {
        Self { doing, fault: Fault::Lasting, source: source.into() }
    }
}

#[cfg(all(test, any(feature = "postgres", feature = "sqlite")))]
mod tests {
    use super::*;

    #[cfg(feature = "postgres")]
    type Db = sqlx::Postgres;
    #[cfg(not(feature = "postgres"))]
    type Db = sqlx::Sqlite;

    fn boxed(error: Error) -> BoxError {
        anyhow::Error::from(error).into()
    }

    #[test]
    fn a_lost_connection_is_seen_through_anyhow() {
        let io = || io::Error::from(io::ErrorKind::ConnectionReset);
        for lost in
            [Error::Io(io()), Error::Tls("no".into()), Error::PoolTimedOut, Error::WorkerCrashed, Error::BeginFailed]
        {
            let text = lost.to_string();
            let error = boxed(lost);
            assert!(!error.is::<Error>(), "the reason for all this");
            assert_eq!(of_chain::<Db>(&*error), Fault::Transient, "{text}");
        }
        let context: BoxError = anyhow::Error::from(Error::PoolTimedOut).context("charging").into();
        assert_eq!(of_chain::<Db>(&*context), Fault::Transient);
    }

    #[test]
    fn other_errors_are_the_handlers_own() {
        assert_eq!(of_chain::<Db>(&*boxed(Error::RowNotFound)), Fault::Lasting);
        let service: BoxError =
            anyhow::Error::from(io::Error::from(io::ErrorKind::ConnectionRefused)).context("calling").into();
        assert_eq!(of_chain::<Db>(&*service), Fault::Lasting);
    }
}
