//! The seal, the guard before COMMIT, and what their failures say.

use std::sync::Arc;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::session::limits;
use crate::store::dialect::{Broken, Chain};

/// What the guard keeps beside a connection.
pub struct Guard {
    /// At least `on`, whatever a handler sets.
    pub(super) synchronous_commit: String,
}

/// A row whose deferred trigger raises at every COMMIT but ours. Deferred is said once more,
/// in case the handler made all constraints immediate.
pub(super) fn sealing(mark: &str) -> String {
    format!(
        "SET CONSTRAINTS idempotent_jobs.sealed DEFERRED; \
         INSERT INTO idempotent_jobs.sealed (token) VALUES ('{mark}')"
    )
}

/// Before COMMIT. RELEASE fails when a statement had failed (25P02) and when this is not
/// the transaction that was opened; the first error keeps the rest from running.
///
/// The statement timeout is off for COMMIT: should it strike while the server waits for its
/// synchronous standby, the server stops waiting and reports success.
pub(super) fn closing(guard: &Guard, mark: &str, sealed: bool, settle: Option<Duration>) -> Vec<String> {
    let mut statements = vec![format!("RELEASE SAVEPOINT {mark}")];
    if sealed {
        statements.push(format!("DELETE FROM idempotent_jobs.sealed WHERE token = '{mark}'"));
        statements.push(format!("SELECT pg_catalog.set_config('idempotent_jobs.seal', '{mark}', true)"));
    }
    // Here, where COMMIT makes them last, and before the one that SET LOCAL covers until then.
    statements.extend(settle.into_iter().flat_map(limits).map(|limit| format!("SET {limit}")));
    statements.push(format!("SET LOCAL synchronous_commit = {}", guard.synchronous_commit));
    statements.push("SET LOCAL statement_timeout = 0".to_owned());
    statements
}

/// The next transaction has the isolation of the last, and what SET LOCAL set ends with it.
pub(super) fn chain(guard: &Guard, mark: &str, settle: Option<Duration>) -> Chain {
    let mut statements = closing(guard, mark, false, settle);
    let before = statements.len();
    statements.extend(["COMMIT AND CHAIN".to_owned(), format!("SAVEPOINT {mark}")]);
    let sql: Arc<str> = statements.join("; ").into();
    Chain { sql: AssertSqlSafe(sql).into_sql_str(), before, all: statements.len() }
}

/// What a failure of `closing` says.
pub(super) fn broken(error: &dyn DatabaseError) -> Broken {
    match error.code().as_deref() {
        _ if fatal(error) => Broken::Lost,
        Some("25P02") => Broken::Aborted,
        // "savepoint does not exist", and "can only be used in transaction blocks".
        Some("3B001" | "25P01") => Broken::Gone,
        // Nothing in the string fails otherwise: an earlier statement's answer was still to come.
        _ => Broken::Earlier,
    }
}

/// An error that answers COMMIT was raised before the commit, unless it ends the session: that
/// one may have struck between the commit and the answer.
pub(super) fn proves_rollback(error: &dyn DatabaseError) -> bool {
    !fatal(error)
}

fn fatal(error: &dyn DatabaseError) -> bool {
    error
        .try_downcast_ref::<PgDatabaseError>()
        .is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}
