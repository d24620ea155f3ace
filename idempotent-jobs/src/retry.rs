//! How long to wait before the next attempt.

use std::time::Duration;

/// Attempts after the first, unless a job says otherwise: with the default waits a service that is away for half a
/// minute costs no message. One that knows it will be away for longer is for `JobError::snooze`.
pub const RETRIES: u32 = 10;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(random: f64) -> Duration {
        (1..=RETRIES).map(|failures| Backoff::default().delay(failures, random)).sum()
    }

    #[test]
    fn ret_02_attempts_are_not_gone_in_seconds() {
        assert!(waits(0.0) >= Duration::from_secs(1), "{:?}", waits(0.0));
        assert!(waits(0.5) > Duration::from_secs(30), "{:?}", waits(0.5));
        assert!(waits(1.0) < Duration::from_secs(180), "{:?}", waits(1.0));
    }

    /// Spread evenly over the whole wait, of however many instances: no instant gets more than its share.
    #[test]
    fn ret_02_instances_do_not_retry_in_step() {
        const INSTANCES: u32 = 100;
        for failures in 1..=RETRIES {
            let ceiling = Backoff::default().delay(failures, 1.0);
            let mut tenths = [0; 10];
            for instance in 0..INSTANCES {
                let wait = Backoff::default().delay(failures, f64::from(instance) / f64::from(INSTANCES));
                assert!(wait >= Duration::from_millis(100) && wait <= ceiling);
                let share = (wait - Duration::from_millis(100)).as_secs_f64()
                    / (ceiling - Duration::from_millis(100)).as_secs_f64();
                tenths[((share * 10.0) as usize).min(9)] += 1;
            }
            assert!(tenths.iter().all(|count| (8..=12).contains(count)), "{failures}: {tenths:?}");
        }
    }

    #[test]
    fn ret_02_no_wait_is_nothing_and_none_beyond_the_cap() {
        let none = Backoff::new(Duration::ZERO, Duration::ZERO);
        assert_eq!(none.delay(1, 0.0), Duration::from_millis(1));
        let cap = Duration::from_secs(30);
        assert!((1..100).all(|failures| Backoff::default().delay(failures, 1.0) <= cap));
        assert_eq!(Backoff::default().delay(u32::MAX, 1.0), cap);
    }
}
