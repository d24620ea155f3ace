//! Which errors of PostgreSQL pass.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

use crate::store::Fault;

/// By SQLSTATE. A unique violation (23505) is the handler's own: claims never raise one.
///
/// A statement cancelled at its timeout (57014) is the work's fault, since its limit is the
/// whole attempt's: it would be cancelled again. So is a transaction that outlives the
/// operator's `transaction_timeout` (25P04).
pub(super) fn fault(error: &PgDatabaseError) -> Fault {
    let transient = match error.code() {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03"
        // Idle in transaction, idle session; read-only after a failover.
        | "25P03" | "57P05" | "25006"
        // Shutdown, crash, starting up.
        | "57P01" | "57P02" | "57P03" => true,
        // Connection exceptions; out of connections, memory, disk.
        code if code.starts_with("08") || code.starts_with("53") => true,
        // BEGIN READ WRITE on a server that became a standby; plans that outlived a migration.
        "0A000" => routine(error, "check_transaction_read_only") || stale(error),
        _ => false,
    };
    if transient { Fault::Transient } else { Fault::Lasting }
}

/// By our `lock_timeout`.
pub(super) fn held(error: &PgDatabaseError) -> bool {
    error.code() == "55P03"
}

/// The tables changed under a prepared statement ("cached plan must not change result type"),
/// or the statement is gone. On this connection it would fail for ever.
pub(super) fn stale(error: &dyn DatabaseError) -> bool {
    match error.code().as_deref() {
        Some("0A000") => routine(error, "RevalidateCachedQuery"),
        Some("26000") => true,
        _ => false,
    }
}

/// By the server's routine, since messages are translated.
fn routine(error: &dyn DatabaseError, name: &str) -> bool {
    error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::routine) == Some(name)
}
