//! Whether this process still takes part in its group.
//!
//! One that was paused (SIGSTOP, a stalled disk, a slept laptop) wakes up believing that it owns
//! its partitions. The claim keeps effects single all the same, but it could run a later message
//! of a key ahead of what the new owner decided. So nothing starts while the consumer has not
//! polled for as long as it may be silent in its group, and for a while after it polls again:
//! librdkafka notices a lost session by a timer of one second, and only a later poll hands it over.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Polling again, before it is believed.
const TRUST: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Pulse {
    silence: Duration,
    session: Duration,
    beat: Mutex<Beat>,
}

#[derive(Debug, Clone, Copy)]
struct Beat {
    last: Instant,
    /// Goes on while the machine sleeps, where the other clock may stand still.
    wall: SystemTime,
    /// Nothing starts before.
    held: Option<Instant>,
}

impl Pulse {
    pub fn new(silence: Duration, session: Duration, now: Instant) -> Self {
        Self { silence, session, beat: Mutex::new(Beat { last: now, wall: SystemTime::now(), held: None }) }
    }

    /// The consumer polled. How long it had not, if that was too long.
    pub fn beat(&self, now: Instant, wall: SystemTime) -> Option<Duration> {
        let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let asleep = beat.silence(now, wall);
        // librdkafka's clock stood still as well: it has yet to count the whole session.
        let suspended = now.saturating_duration_since(beat.last) < self.silence;
        beat.last = now;
        beat.wall = wall;
        if asleep < self.silence {
            return None;
        }
        beat.held = Some(now + if suspended { self.session + TRUST } else { TRUST });
        Some(asleep)
    }

    /// Whether nothing may start.
    pub fn is_stopped(&self, now: Instant) -> bool {
        let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        beat.held = beat.held.filter(|held| now < *held);
        beat.held.is_some() || beat.silence(now, SystemTime::now()) >= self.silence
    }
}

impl Beat {
    /// By whichever clock says more. A wall clock that is set forward costs a moment's rest.
    fn silence(&self, now: Instant, wall: SystemTime) -> Duration {
        now.saturating_duration_since(self.last).max(wall.duration_since(self.wall).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(4);
    const SESSION: Duration = Duration::from_secs(6);

    #[test]
    fn an_owner_that_was_asleep_starts_nothing_before_its_group_is_heard_of() {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let pulse = Pulse::new(SILENCE, SESSION, start);
        assert_eq!(pulse.beat(start, wall), None);
        assert!(!pulse.is_stopped(start + SILENCE - Duration::from_secs(1)));
        assert!(pulse.is_stopped(start + SILENCE));
        let woken = start + 2 * SILENCE;
        assert_eq!(pulse.beat(woken, wall), Some(2 * SILENCE));
        assert!(pulse.is_stopped(woken + TRUST / 2));
        pulse.beat(woken + TRUST, wall);
        assert!(!pulse.is_stopped(woken + TRUST));
    }

    #[test]
    fn a_clock_that_stood_still_while_the_machine_slept_is_not_trusted_alone() {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let pulse = Pulse::new(SILENCE, SESSION, start);
        assert!(pulse.beat(start, wall + 2 * SILENCE).is_some());
        assert!(pulse.is_stopped(start + SESSION));
    }
}
