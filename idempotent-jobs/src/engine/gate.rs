//! Lets what may kill the process run with nothing beside it.
//!
//! Invariant: while a message runs alone, no other job of this process runs, of whatever worker, and no
//! payload is read. Who waits here holds no connection: those who run may need it.

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Of the whole process: all its workers die together.
static GATE: RwLock<()> = RwLock::const_new(());

/// Held while a message runs.
pub(super) enum Pass {
    /// Others may run beside it.
    Beside { _held: RwLockReadGuard<'static, ()> },
    /// None does.
    Alone { _held: RwLockWriteGuard<'static, ()> },
}

/// At once, unless somebody runs alone or waits to.
pub(super) fn try_beside() -> Option<Pass> {
    GATE.try_read().ok().map(|held| Pass::Beside { _held: held })
}

/// Waits until nobody runs alone.
pub(super) async fn beside() -> Pass {
    Pass::Beside { _held: GATE.read().await }
}

/// Waits until nobody runs. Those who come later wait for this one, so that it has its turn.
pub(super) async fn alone() -> Pass {
    Pass::Alone { _held: GATE.write().await }
}
