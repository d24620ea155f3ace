//! From the first message to the last: what a measured process counts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// Counts messages, and keeps the time of the first and the last.
pub struct Progress {
    expected: u64,
    done: AtomicU64,
    duplicates: AtomicU64,
    began: OnceLock<Instant>,
    ended: OnceLock<Instant>,
    all: Notify,
}

/// What a measured process tells at its end, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    pub seconds: f64,
    pub done: u64,
    pub duplicates: u64,
    /// The most memory the process ever held.
    pub rss_kib: u64,
}

impl Progress {
    pub fn new(expected: u64) -> Self {
        Self {
            expected,
            done: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            began: OnceLock::new(),
            ended: OnceLock::new(),
            all: Notify::new(),
        }
    }

    /// A message is at hand. Start-up and joining the group lie before the first.
    pub fn begin(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// So many messages are committed.
    pub fn done(&self, messages: u64) {
        self.begin();
        if self.done.fetch_add(messages, Ordering::Relaxed) + messages >= self.expected {
            self.ended.get_or_init(Instant::now);
            self.all.notify_one();
        }
    }

    /// Nothing more will come, whatever was expected.
    pub fn end(&self) {
        self.ended.get_or_init(Instant::now);
    }

    /// A message was seen before.
    pub fn duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
        self.done(1);
    }

    /// Waits for the last message.
    pub async fn all_done(&self) {
        self.all.notified().await;
    }

    /// What there is to tell; `None` before the last message.
    pub fn told(&self) -> Option<Told> {
        let seconds = self.ended.get()?.duration_since(*self.began.get()?).as_secs_f64();
        let (done, duplicates) = (self.done.load(Ordering::Relaxed), self.duplicates.load(Ordering::Relaxed));
        Some(Told { seconds, done, duplicates, rss_kib: peak_rss_kib() })
    }
}

/// `VmHWM` of this process; 0 where the system does not tell.
fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|words| words.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
