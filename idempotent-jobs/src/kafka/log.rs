//! librdkafka's own words, passed on to `tracing`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use tracing::{debug, error, info, warn};

/// Passes a line on. librdkafka never logs the values of properties.
pub(super) fn pass_on(level: RDKafkaLogLevel, facility: &str, text: &str) {
    // Consumer and producer are given the same properties, and each says which it has no use for.
    let level =
        if facility == "CONFWARN" && text.contains("will be ignored by this") { RDKafkaLogLevel::Debug } else { level };
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
            error!(target: "librdkafka", "{facility}: {text}");
        }
        RDKafkaLogLevel::Warning => warn!(target: "librdkafka", "{facility}: {text}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => info!(target: "librdkafka", "{facility}: {text}"),
        RDKafkaLogLevel::Debug => debug!(target: "librdkafka", "{facility}: {text}"),
    }
}

/// Lets one line through in a while: an outage repeats the same error for every connection.
pub(super) struct Sparing {
    last: Mutex<Option<Instant>>,
    every: Duration,
}

impl Sparing {
    pub(super) const fn new(every: Duration) -> Self {
        Self { last: Mutex::new(None), every }
    }

    /// Whether it is time for a line.
    pub(super) fn due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= self.every);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}
