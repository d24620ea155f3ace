//! How many messages a shared transaction takes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use super::together::Undone;
use crate::job::{Grouping, Spec};
use crate::telemetry;

/// How a job's shared transactions go.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds a message takes of one, roughly; 0 until known.
    nanos: AtomicU64,
    /// Its handler does what others would see: it runs alone.
    alone: AtomicBool,
}

/// How long a shared transaction is to take at most: its first message waits for the last one.
const LINGER: Duration = Duration::from_millis(100);

impl Pace {
    /// How many messages to put into the next transaction.
    pub fn fit(&self, grouping: Grouping) -> usize {
        match grouping {
            Grouping::Shared(_) if self.alone.load(Relaxed) => 1,
            Grouping::Shared(limit) => match self.nanos.load(Relaxed) {
                0 => limit,
                nanos => limit.min(usize::try_from(LINGER.as_nanos() as u64 / nanos).unwrap_or(limit)).max(1),
            },
            other => other.limit(),
        }
    }

    /// Every transaction counts an eighth, so that one that was held up is soon forgotten.
    pub fn ran(&self, took: Duration, messages: usize) {
        let new = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / messages as u64;
        let old = self.nanos.load(Relaxed);
        self.nanos.store(if old == 0 { new } else { old - old / 8 + new / 8 }.max(1), Relaxed);
    }

    /// Tells of a transaction that was undone.
    pub fn undone(&self, spec: &Spec, messages: usize, undone: &Undone) {
        metrics::counter!(telemetry::UNDONE, "job" => spec.name, "topic" => spec.topic).increment(1);
        match undone {
            Undone::Failed(error) => {
                tracing::warn!(
                    job = spec.name,
                    messages,
                    error,
                    "a shared transaction is undone; its messages run one by one"
                );
            }
            Undone::Disturbed(why) if !self.alone.swap(true, Relaxed) => {
                tracing::warn!(job = spec.name, "its messages share no transaction from here on, since {why}");
            }
            Undone::Disturbed(_) => {}
        }
    }
}
