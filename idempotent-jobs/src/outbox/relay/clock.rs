//! A clock that goes on while the machine sleeps.

use std::time::{Duration, Instant, SystemTime};

/// Corrections of the wall clock below it are not taken for a sleep.
const SLEEP: Duration = Duration::from_millis(500);

/// Time since the relay began. The monotonic clock may stand still while the machine sleeps, and a
/// lease would look valid that others took over; the wall clock may be set back. So of each step
/// from one look to the next the former counts, unless the latter went well ahead in it.
pub(super) struct Clock {
    counted: Instant,
    wall: SystemTime,
    now: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self { counted: Instant::now(), wall: SystemTime::now(), now: Duration::ZERO }
    }

    pub fn now(&mut self) -> Duration {
        self.look(Instant::now(), SystemTime::now())
    }

    fn look(&mut self, counted: Instant, wall: SystemTime) -> Duration {
        let by_count = counted.saturating_duration_since(self.counted);
        // Nothing, if it was set back.
        let by_wall = wall.duration_since(self.wall).unwrap_or_default();
        (self.counted, self.wall) = (counted, wall);
        self.now += if by_wall > by_count + SLEEP { by_wall } else { by_count };
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const S: Duration = Duration::from_secs(1);

    #[test]
    fn out_03_a_sleep_is_seen_also_after_the_wall_clock_was_set_back() {
        let mut clock = Clock::start();
        let (counted, wall) = (clock.counted, clock.wall);
        assert_eq!(clock.look(counted + S, wall + S), S);
        assert_eq!(clock.look(counted + 2 * S, wall + 2 * S - HOUR), 2 * S);
        assert_eq!(clock.look(counted + 3 * S, wall + 3 * S - HOUR), 3 * S);
        // Ten seconds of which the monotonic clock saw one.
        assert_eq!(clock.look(counted + 4 * S, wall + 13 * S - HOUR), 13 * S);
    }

    #[test]
    fn small_corrections_of_the_wall_clock_are_no_sleep() {
        let mut clock = Clock::start();
        let (counted, wall) = (clock.counted, clock.wall);
        assert_eq!(clock.look(counted + S, wall + S + SLEEP), S);
    }
}
