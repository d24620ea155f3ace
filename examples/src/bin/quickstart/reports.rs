//! What the worker tells its parent: a line on stdout at each outcome, taken from the library's
//! metrics. Lines written survive a SIGKILL of the writer; counters in memory would not.

use std::sync::Arc;

use idempotent_jobs::telemetry;
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// Partitions were assigned: the worker is at work.
    Assigned,
    /// An effect was committed.
    Done,
    /// A duplicate was skipped.
    Duplicate,
}

const WORDS: [(&str, Report); 4] = [
    ("assigned", Report::Assigned),
    ("done", Report::Done),
    ("duplicate", Report::Duplicate),
    ("unverified", Report::Duplicate),
];

impl Report {
    /// Reads a line; other lines are none of ours.
    pub fn read(line: &str) -> Option<Self> {
        WORDS.iter().find(|(word, _)| *word == line).map(|(_, report)| *report)
    }
}

/// Makes this process report.
pub fn install() -> Result<(), crate::Failure> {
    Ok(metrics::set_global_recorder(Reporter).map_err(|error| error.to_string())?)
}

struct Reporter;

impl Recorder for Reporter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let outcome = key.labels().find(|label| label.key() == "outcome").map(metrics::Label::value);
        match WORDS.iter().find(|(word, _)| Some(*word) == outcome) {
            Some((word, _)) if key.name() == telemetry::OUTCOMES => Counter::from_arc(Arc::new(Outcome(word))),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        if key.name() == telemetry::ASSIGNED { Gauge::from_arc(Arc::new(Assigned)) } else { Gauge::noop() }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

struct Outcome(&'static str);

impl CounterFn for Outcome {
    fn increment(&self, times: u64) {
        (0..times).for_each(|_| println!("{}", self.0));
    }

    fn absolute(&self, _: u64) {}
}

struct Assigned;

impl GaugeFn for Assigned {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    fn set(&self, partitions: f64) {
        if partitions > 0.0 {
            println!("assigned");
        }
    }
}
