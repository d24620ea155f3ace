//! How many messages a transaction takes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::together::Undone;
use crate::job::{Grouping, Spec};
use crate::telemetry;

/// How a job's transactions of several messages go.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds a message takes of one, roughly; 0 until known.
    nanos: AtomicU64,
    /// So many messages more run alone, since the handler did what others would see.
    alone: AtomicU32,
}

/// How long a shared transaction is to take at most: its first message waits for the last one.
const LINGER: Duration = Duration::from_millis(100);

/// Messages that run alone after one whose handler disturbed its neighbours: most likely all of
/// them would, and it may have been the one that is bad.
const ALONE: u32 = 1_000;

impl Pace {
    /// How many messages to put into the next transaction.
    pub fn fit(&self, spec: &Spec) -> usize {
        match spec.grouping {
            Grouping::Single => 1,
            Grouping::Shared(_) if self.alone.load(Relaxed) > 0 => 1,
            Grouping::Shared(limit) => self.within(LINGER, limit),
            // All of it is one call, whose time the job's author chose.
            Grouping::Batch(limit) => self.within(spec.timeout / 2, limit),
        }
    }

    /// As many as are likely to be done in time.
    fn within(&self, time: Duration, limit: usize) -> usize {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match nanos.checked_div(self.nanos.load(Relaxed)) {
            Some(fitting) => limit.min(usize::try_from(fitting).unwrap_or(limit)).max(1),
            None => limit,
        }
    }

    /// Every transaction counts an eighth, so that one that was held up is soon forgotten.
    pub fn ran(&self, took: Duration, messages: usize) {
        let new = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / messages as u64;
        let old = self.nanos.load(Relaxed);
        self.nanos.store(if old == 0 { new } else { old - old / 8 + new / 8 }.max(1), Relaxed);
        if messages == 1 {
            let _ = self.alone.fetch_update(Relaxed, Relaxed, |alone| alone.checked_sub(1));
        }
    }

    /// Tells of a transaction that was undone.
    pub fn undone(&self, spec: &Spec, messages: usize, undone: &Undone) {
        metrics::counter!(telemetry::UNDONE, "job" => spec.name, "topic" => spec.topic).increment(1);
        let error = match undone {
            Undone::Disturbed(why) => {
                if self.alone.swap(ALONE, Relaxed) == 0 {
                    tracing::warn!(job = spec.name, "its next {ALONE} messages share no transaction, since {why}");
                }
                return;
            }
            Undone::Slow(took) => {
                let each = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / messages as u64;
                self.nanos.fetch_max(each, Relaxed);
                &format!("together they took longer than the timeout of {:?}", spec.timeout)
            }
            Undone::Parked => return tracing::debug!(job = spec.name, messages, "run one by one behind a dead letter"),
            Undone::Failed(error) => error,
        };
        tracing::warn!(job = spec.name, messages, error, "a shared transaction is undone; its messages run one by one");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Context, Handle};
    use crate::job::{Declaration, Running};

    struct NoTx;

    impl Handle for NoTx {
        const NAME: &'static str = "NoTx";
        const DATABASE: &'static str = "none";
    }

    fn entry<'a>(_: &'a mut NoTx, (): (), _: &'a Context) -> Running<'a> {
        unreachable!("no message is run here")
    }

    fn spec(grouping: Grouping) -> Spec {
        let spec = Declaration::new("charge", "orders", entry).erase().spec().clone();
        Spec { grouping, timeout: Duration::from_secs(2), ..spec }
    }

    #[test]
    fn a_shared_transaction_is_kept_short_and_grows_again() {
        let (pace, spec) = (Pace::default(), spec(Grouping::Shared(100)));
        assert_eq!(pace.fit(&spec), 100);
        pace.ran(Duration::from_secs(1), 100);
        assert_eq!(pace.fit(&spec), 10);
        (0..100).for_each(|_| pace.ran(Duration::from_millis(1), 10));
        assert_eq!(pace.fit(&spec), 100);
    }

    #[test]
    fn a_batch_is_what_was_declared_until_it_takes_too_long() {
        let (pace, spec) = (Pace::default(), spec(Grouping::Batch(100)));
        pace.ran(Duration::from_millis(900), 100);
        assert_eq!(pace.fit(&spec), 100);
        pace.undone(&spec, 100, &Undone::Slow(Duration::from_secs(2)));
        assert_eq!(pace.fit(&spec), 50);
    }

    #[test]
    fn who_disturbs_others_runs_alone_for_a_while() {
        let (pace, spec) = (Pace::default(), spec(Grouping::Shared(100)));
        pace.undone(&spec, 2, &Undone::Disturbed("it borrowed the connection"));
        for _ in 0..ALONE {
            assert_eq!(pace.fit(&spec), 1);
            pace.ran(Duration::from_micros(100), 1);
        }
        assert_eq!(pace.fit(&spec), 100);
    }
}
