//! Which errors of SQLite pass.

use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

use crate::store::Fault;

/// By primary result code. A unique violation is the handler's own: claims never raise one.
pub(super) fn fault(error: &SqliteError) -> Fault {
    match primary(error) {
        // BUSY, LOCKED: another connection writes. NOMEM, IOERR, FULL: as PostgreSQL's class 53.
        5 | 6 | 7 | 10 | 13 => Fault::Transient,
        _ => Fault::Lasting,
    }
}

/// By the busy timeout.
pub(super) fn held(error: &SqliteError) -> bool {
    matches!(primary(error), 5 | 6)
}

/// Never: SQLite prepares a statement again when the tables changed.
pub(super) fn stale(_: &dyn DatabaseError) -> bool {
    false
}

/// The result code without its extension.
pub(super) fn primary(error: &dyn DatabaseError) -> i32 {
    error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(0) & 0xff
}
