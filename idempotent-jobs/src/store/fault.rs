//! Whether an error is the database's own passing trouble.

use std::error::Error as StdError;

use sqlx::Error;

use super::{Dialect, Fault, StoreError};
use crate::error::BoxError;

/// The fault of whatever a handler returned, by the first database error in its chain.
pub(super) fn of_chain<DB: Dialect>(error: &(dyn StdError + 'static)) -> Fault {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>() {
            return of::<DB>(error);
        }
        if let Some(error) = error.downcast_ref::<StoreError>() {
            return error.fault;
        }
        next = error.source();
    }
    Fault::Lasting
}

/// The fault of one error of the driver.
pub(super) fn of<DB: Dialect>(error: &Error) -> Fault {
    match error {
        Error::Database(error) => DB::fault(&**error),
        error if lost(error) => Fault::Transient,
        _ => Fault::Lasting,
    }
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

    /// A failure that passes.
    pub(super) fn transient(doing: &'static str, source: impl Into<BoxError>) -> Self {
        Self { doing, fault: Fault::Transient, source: source.into() }
    }

    /// A failure that does not.
    pub(super) fn lasting(doing: &'static str, source: impl Into<BoxError>) -> Self {
        Self { doing, fault: Fault::Lasting, source: source.into() }
    }
}
