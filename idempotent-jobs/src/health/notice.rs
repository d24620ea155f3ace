//! What is worth knowing, and keeps nobody from work.

use std::fmt;
use std::time::SystemTime;

/// What a worker found of its group's offset of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// When.
    pub at: SystemTime,
    /// The topic.
    pub topic: String,
    /// The partition, from 0.
    pub partition: i32,
    /// Its word, as in the metric `idempotent_jobs_findings_total`: `lost_history`, `moved_ahead`, …
    pub finding: &'static str,
    /// What it is, with the offsets.
    pub what: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, finding, what, .. } = self;
        write!(f, "{finding}: topic {topic}, partition {partition}: {what}")
    }
}
