//! Placeholders for the handles, until the stores bring them.

use crate::context::{Handle, IsolationLevels};

/// PostgreSQL's handle.
pub struct PgTx(());

impl Handle for PgTx {
    const NAME: &'static str = "PgTx";
    const DATABASE: &'static str = "PostgreSQL";
}

impl IsolationLevels for PgTx {}

/// SQLite's handle.
pub struct SqliteTx(());

impl Handle for SqliteTx {
    const NAME: &'static str = "SqliteTx";
    const DATABASE: &'static str = "SQLite";
}
