//! From the outbox to Kafka.
//!
//! ```text
//! outbox ──due──▶ window ──launch──▶ dispatch ──▶ Kafka
//!    ▲               │  ▲                          │
//!    └──── sent ─────┘  └──────── reports ─────────┘
//! ```
//!
//! The invariants, and where they are kept: a row leaves the outbox only after the delivery report
//! of that very record said yes (`driver`); of one partition key at most one record is on its way,
//! in the order of commit (`window`); of a shard only its owner sends, and stops by its own clock
//! before the lease is over (`shares`, `clock`). Everything else is at least once, with one key.

mod clock;
mod driver;
mod errands;
mod judge;
mod meter;
mod pace;
mod reach;
pub(crate) mod shares;
mod topics;
pub(crate) mod window;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::Instrument as _;

use self::driver::Driver;
use crate::health::Health;
use crate::kafka::Dispatch;
use crate::retry::Backoff;
use crate::store::RelayStore;

/// How a relay works.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// Records in memory, at most.
    pub rows: usize,
    /// Their bytes, at most.
    pub bytes: usize,
    /// For how long sent records are kept; `None`: not at all.
    pub keep_sent: Option<Duration>,
    /// Between attempts at a record that the brokers refuse.
    pub refused: Backoff,
    /// Between attempts at a topic that cannot be reached.
    pub trouble: Backoff,
    /// If nothing was heard of the brokers for so long while something waits for them, others are
    /// to have the outbox.
    pub silence: Duration,
    /// How long what is on its way may take once the relay was told to stop.
    pub budget: Duration,
    /// Told how the relay is.
    pub health: Option<Health>,
}

/// No wait and no retention is longer: databases' dates end somewhere.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 86_400);

impl Terms {
    /// Keeps sent records so long, a year at most.
    pub fn keep_sent(self, retention: Duration) -> Self {
        Self { keep_sent: Some(retention.min(YEAR)), ..self }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            rows: 10_000,
            bytes: 16 << 20,
            keep_sent: None,
            refused: Backoff::new(Duration::from_secs(1), Duration::from_secs(300)),
            trouble: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
            silence: Duration::from_secs(10),
            budget: Duration::from_secs(10),
            health: None,
        }
    }
}

/// Relays until told to stop, which says how long the end may take. `bell` is rung in this process when
/// records are in the outbox. Told to stop, what is on its way is waited for, and the shards are given back.
pub(crate) async fn relay(
    store: Arc<dyn RelayStore>,
    dispatch: Dispatch,
    bell: Arc<Notify>,
    terms: Terms,
    stop: impl Future<Output = Duration> + Send,
) {
    let span = tracing::info_span!("relay", relay = tracing::field::Empty);
    let driver = span.in_scope(|| Driver::new(store, dispatch, bell, terms));
    driver.run(stop).instrument(span).await;
}
