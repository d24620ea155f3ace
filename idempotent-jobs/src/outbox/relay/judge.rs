//! What is to be done about a record that was not delivered. Pure; chance is passed in.

use std::time::Duration;

use crate::kafka::Fate;
use crate::retry::Backoff;

/// So often the brokers may refuse a record before it is set aside.
const ATTEMPTS: u32 = 10;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Kafka has it.
    Sent,
    /// It is sent again when its topic is out of trouble; costs no attempt.
    Again(String),
    /// It is sent again in a batch of its own, to see whether it was the bad one.
    Alone,
    /// It is tried again after a while, and costs an attempt.
    Later(String, Duration),
    /// It is set aside.
    Aside(String),
    /// As `Again`, with another producer.
    Rebuild(String),
}

/// `attempts`: those before this one.
pub(super) fn judge(fate: Fate, attempts: u32, alone: bool, refused: Backoff, random: f64) -> Verdict {
    match fate {
        Fate::Delivered => Verdict::Sent,
        Fate::Trouble(detail) => Verdict::Again(detail),
        Fate::Broken(detail) => Verdict::Rebuild(detail),
        Fate::Shared(_) if !alone => Verdict::Alone,
        Fate::Shared(detail) | Fate::Unfit(detail) => Verdict::Aside(detail),
        Fate::Refused(detail) if attempts + 1 >= ATTEMPTS => Verdict::Aside(detail),
        Fate::Refused(detail) => Verdict::Later(detail, refused.delay(attempts + 1, random)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

    fn of(fate: Fate, attempts: u32, alone: bool) -> Verdict {
        judge(fate, attempts, alone, REFUSED, 1.0)
    }

    #[test]
    fn out_04_trouble_of_the_brokers_costs_nothing_however_long_it_lasts() {
        assert_eq!(of(Fate::Trouble("down".into()), 9, true), Verdict::Again("down".into()));
    }

    #[test]
    fn out_05_a_refused_record_is_set_aside_in_the_end() {
        assert_eq!(of(Fate::Refused("no".into()), 0, false), Verdict::Later("no".into(), Duration::from_secs(2)));
        assert_eq!(of(Fate::Refused("no".into()), 9, false), Verdict::Aside("no".into()));
        assert_eq!(of(Fate::Unfit("big".into()), 0, false), Verdict::Aside("big".into()));
    }

    #[test]
    fn neighbours_of_a_bad_record_are_not_accused() {
        assert_eq!(of(Fate::Shared("big".into()), 0, false), Verdict::Alone);
        assert_eq!(of(Fate::Shared("big".into()), 0, true), Verdict::Aside("big".into()));
    }
}
