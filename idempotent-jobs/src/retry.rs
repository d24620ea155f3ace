//! How long to wait before the next attempt.

use std::time::Duration;

/// Exponential backoff with full jitter between a floor and a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
}

impl Backoff {
    /// From `min` (at least 1 ms, so that a failure never spins) doubling up to `max`.
    pub const fn new(min: Duration, max: Duration) -> Self {
        let floor = Duration::from_millis(1);
        let min = if min.as_nanos() < floor.as_nanos() { floor } else { min };
        let max = if max.as_nanos() < min.as_nanos() { min } else { max };
        Self { min, max }
    }

    /// The wait before the attempt that follows `failures` failed ones (from 1), for a
    /// `random` in 0..1: never below the floor, never above the cap.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let doubled = self.min.saturating_mul(1u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX));
        let ceiling = doubled.min(self.max);
        self.min + (ceiling - self.min).mul_f64(random.clamp(0.0, 1.0))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(30))
    }
}
