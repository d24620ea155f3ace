//! A word between a commit and the relay in the same process.

use std::sync::LazyLock;

use tokio::sync::watch;

static POKES: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));

/// A transaction of this process that put records into the outbox was committed: its relay, if
/// there is one, looks at once. PostgreSQL's relays are woken by NOTIFY too; SQLite has this alone.
pub(crate) fn poke() {
    POKES.send_modify(|pokes| *pokes = pokes.wrapping_add(1));
}

/// Hears of pokes.
pub(crate) struct Pokes(watch::Receiver<u64>);

impl Pokes {
    /// From now on.
    pub fn listen() -> Self {
        Self(POKES.subscribe())
    }

    /// Waits for the next poke. Those that came since the last call are one.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The sender is never dropped.
            std::future::pending::<()>().await;
        }
    }
}
