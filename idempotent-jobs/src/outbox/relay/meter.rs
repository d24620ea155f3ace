//! The relay's metrics.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

use crate::telemetry;

/// See the module. Dropped, its gauges are 0: a relay that ended has nothing.
pub(super) struct Meter {
    sent: HashMap<Arc<str>, Counter>,
    in_flight: Gauge,
    shards: Gauge,
    age: Gauge,
}

impl Meter {
    pub fn new() -> Self {
        Self {
            sent: HashMap::new(),
            in_flight: gauge!(telemetry::RELAY_IN_FLIGHT),
            shards: gauge!(telemetry::RELAY_SHARDS),
            age: gauge!(telemetry::RELAY_BACKLOG_AGE),
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
    }
}
