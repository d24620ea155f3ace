//! The relay's metrics.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

use crate::telemetry;

/// Numbers of this process's relays. Those that ended give theirs back, so that labels stay few.
static NUMBERS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// See the module. Dropped, its gauges are 0: a relay that ended has nothing.
pub(super) struct Meter {
    number: usize,
    sent: HashMap<Arc<str>, Counter>,
    in_flight: Gauge,
    shards: Gauge,
    age: Gauge,
}

impl Meter {
    pub fn new() -> Self {
        let mut numbers = numbers();
        let number = (0..).find(|number| !numbers.contains(number)).unwrap_or_default();
        numbers.insert(number);
        Self {
            number,
            sent: HashMap::new(),
            in_flight: gauge!(telemetry::RELAY_IN_FLIGHT, "relay" => number.to_string()),
            shards: gauge!(telemetry::RELAY_SHARDS, "relay" => number.to_string()),
            age: gauge!(telemetry::RELAY_BACKLOG_AGE, "relay" => number.to_string()),
        }
    }

    pub fn sent(&mut self, topic: &Arc<str>) {
        if let Some(counter) = self.sent.get(topic) {
            counter.increment(1);
            return;
        }
        let counter = counter!(telemetry::RELAY_SENT, "topic" => topic.to_string());
        counter.increment(1);
        self.sent.insert(Arc::clone(topic), counter);
    }

    pub fn failed(&self, topic: &str, kind: &'static str) {
        counter!(telemetry::RELAY_FAILURES, "topic" => topic.to_owned(), "kind" => kind).increment(1);
    }

    pub fn set_aside(&self, topic: &str) {
        counter!(telemetry::RELAY_SET_ASIDE, "topic" => topic.to_owned()).increment(1);
    }

    pub fn lost(&self, shards: usize) {
        counter!(telemetry::RELAY_LOST_SHARDS).increment(shards as u64);
    }

    pub fn standing(&self, in_flight: usize, shards: usize) {
        self.in_flight.set(in_flight as f64);
        self.shards.set(shards as f64);
    }

    pub fn age(&self, age: Option<Duration>) {
        self.age.set(age.unwrap_or_default().as_secs_f64());
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.standing(0, 0);
        self.age(None);
        numbers().remove(&self.number);
    }
}

fn numbers() -> MutexGuard<'static, BTreeSet<usize>> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}
