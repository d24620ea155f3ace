//! A clock that goes on while the machine sleeps.

use std::time::{Duration, Instant, SystemTime};

/// Corrections of the wall clock below it are not taken for a sleep.
const SLEEP: Duration = Duration::from_millis(500);

/// Time since the relay began. The monotonic clock may stand still while the machine sleeps, and a
/// lease would look valid that others took over; the wall clock may be set back. So the former
/// counts, and what the latter is ahead of it.
pub(super) struct Clock {
    began: Instant,
    wall: SystemTime,
    ahead: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self { began: Instant::now(), wall: SystemTime::now(), ahead: Duration::ZERO }
    }

    pub fn now(&mut self) -> Duration {
        let counted = self.began.elapsed();
        let ahead = self.wall.elapsed().unwrap_or_default().saturating_sub(counted);
        if ahead > self.ahead + SLEEP {
            self.ahead = ahead;
        }
        counted + self.ahead
    }
}
