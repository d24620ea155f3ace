//! A connection for job transactions, and how each of them opens.

use std::time::Duration;

use sqlx::{Executor, PgConnection, Postgres};

use super::claim;
use super::guard::Guard;
use crate::context::Isolation;
use crate::store::{StoreError, Terms};

/// Readies a new connection.
///
/// Outside our own transactions, which say READ WRITE, the session is read-only. So when a
/// handler ends its transaction round the handle, what it writes next is not committed by
/// itself, without a claim: it fails.
pub(super) async fn prepare(conn: &mut PgConnection) -> Result<Guard, StoreError> {
    const DOING: &str = "preparing a connection";
    let failed = |error| StoreError::driver::<Postgres>(DOING, error);
    let (read_only, standby, synchronous_commit): (bool, bool, String) = sqlx::query_as(
        "SELECT current_setting('default_transaction_read_only')::bool, pg_is_in_recovery(), \
         current_setting('synchronous_commit')",
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(failed)?;
    if standby {
        return Err(StoreError::transient(
            DOING,
            "the server is a standby, which cannot write: connect to the primary",
        ));
    }
    if read_only {
        let why = "the database is set to read-only (default_transaction_read_only)";
        return Err(StoreError::transient(DOING, why));
    }
    let settings = format!("SET default_transaction_read_only = on; {}", claim::PREPARING);
    conn.execute(sqlx::AssertSqlSafe(settings)).await.map_err(failed)?;
    Ok(Guard { synchronous_commit: at_least_on(synchronous_commit) })
}

/// A claim that a crash of the server can take back would let its message be lost or run twice.
fn at_least_on(setting: String) -> String {
    if matches!(setting.as_str(), "off" | "local") { "on".to_owned() } else { setting }
}

/// The whole opening in one trip. The level is always spelled out, since the default belongs
/// to the role and the database, and a claim under another level fails with 40001.
///
/// Limits that the session does not have are set for this transaction alone: set for good, they
/// would go when it is rolled back.
pub(super) fn opening(terms: &Terms, mark: &str, settled: bool) -> String {
    let level = match terms.isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    };
    let begin = format!("BEGIN ISOLATION LEVEL {level} READ WRITE");
    if settled {
        return format!("{begin}; SAVEPOINT {mark}");
    }
    let limits = limits(terms.timeout).map(|limit| format!("SET LOCAL {limit}")).join("; ");
    format!("{begin}; {limits}; SAVEPOINT {mark}")
}

/// What bounds an attempt in the database too.
pub(super) fn limits(timeout: Duration) -> [String; 3] {
    // 0 would switch a limit off.
    let attempt = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(2);
    // Shorter than the attempt, so that waiting for another holder of the key ends as 55P03,
    // which costs no attempt, and not as a timeout, which does.
    let lock = (attempt / 2).clamp(1, 10_000);
    [
        format!("lock_timeout = {lock}"),
        format!("statement_timeout = {attempt}"),
        format!("idle_in_transaction_session_timeout = {attempt}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synchronous_commit_is_raised_and_never_lowered() {
        for (found, forced) in [
            ("off", "on"),
            ("local", "on"),
            ("on", "on"),
            ("remote_write", "remote_write"),
            ("remote_apply", "remote_apply"),
        ] {
            assert_eq!(at_least_on(found.into()), forced);
        }
    }

    #[test]
    fn no_limit_is_ever_switched_off() {
        for (timeout, lock) in [(Duration::ZERO, 1), (Duration::from_secs(4), 2000), (Duration::MAX, 10_000)] {
            let sql = opening(&Terms { isolation: Isolation::default(), timeout }, "s", false);
            assert!(sql.contains(&format!("lock_timeout = {lock};")), "{sql}");
            assert!(!sql.contains("= 0"), "{sql}");
        }
    }
}
