//! What is seen while it runs; on stderr, the bar only where a person looks.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::format::{counted, grouped};

/// Deliveries out of those that were sent.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn of(messages: usize) -> Self {
        let bar = ProgressBar::new(messages as u64);
        let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} messages, {msg} [{elapsed}]");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Messages delivered again count once more, but never past the end.
    pub fn show(&self, settled: usize, duplicates: usize) {
        self.0.set_position((settled as u64).min(self.0.length().unwrap_or(u64::MAX)));
        self.0.set_message(format!("{} duplicates skipped", grouped(counted(duplicates))));
    }

    pub fn say(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
