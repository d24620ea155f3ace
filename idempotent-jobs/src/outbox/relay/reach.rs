//! Whether the brokers can be reached from here. Pure; times are passed in.
//!
//! A relay that reaches the database alone would keep its shards and send nothing of them, while
//! others could. So it belongs to the relays only once the brokers have answered it, and while they do.

use std::time::Duration;

/// Between questions.
const BETWEEN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Reach {
    /// If they have not answered for so long, there is no way to them. After half of it they are
    /// asked.
    silence: Duration,
    answered: Duration,
    /// Since when something waits for them all the time.
    waits_since: Option<Duration>,
    next_ask: Duration,
    cut_off: bool,
}

impl Reach {
    /// Nothing was heard of them yet.
    pub fn new(silence: Duration) -> Self {
        Self { silence, answered: Duration::ZERO, waits_since: None, next_ask: Duration::ZERO, cut_off: true }
    }

    /// They answered.
    pub fn answered(&mut self, now: Duration) {
        (self.answered, self.cut_off) = (now, false);
    }

    /// Whether anything waits for them; said again and again.
    pub fn waits(&mut self, waits: bool, now: Duration) {
        self.waits_since = waits.then(|| self.waits_since.unwrap_or(now));
        self.cut_off |= self.silent(now, self.silence);
    }

    /// From the silence on, until they answer.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Whether they are to be asked now.
    pub fn asks(&mut self, now: Duration) -> bool {
        let asks = now >= self.next_ask && (self.cut_off || self.silent(now, self.silence / 2));
        if asks {
            self.next_ask = now + BETWEEN;
        }
        asks
    }

    fn silent(&self, now: Duration, long: Duration) -> bool {
        self.waits_since.is_some_and(|since| now.saturating_sub(since.max(self.answered)) >= long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn before_the_first_answer_the_brokers_are_asked_each_second() {
        let mut reach = Reach::new(s(10));
        assert!(reach.is_cut_off() && reach.asks(s(0)) && !reach.asks(s(0)) && reach.asks(s(1)));
        reach.answered(s(1));
        assert!(!reach.is_cut_off() && !reach.asks(s(100)), "nothing waits for them");
    }

    #[test]
    fn a_record_that_waits_has_them_asked_and_silence_is_believed_until_an_answer() {
        let mut reach = Reach::new(s(10));
        reach.answered(s(1));
        reach.waits(true, s(100));
        assert!(!reach.asks(s(104)) && reach.asks(s(105)));
        reach.waits(true, s(109));
        assert!(!reach.is_cut_off());
        reach.waits(true, s(110));
        reach.waits(false, s(111));
        assert!(reach.is_cut_off(), "that all was given back is no answer");
        assert!(reach.asks(s(112)));
        reach.answered(s(112));
        assert!(!reach.is_cut_off());
    }

    #[test]
    fn brokers_that_answer_are_there_however_long_a_partition_has_no_leader() {
        let mut reach = Reach::new(s(10));
        for second in 0..100 {
            if reach.asks(s(second)) {
                reach.answered(s(second));
            }
            reach.waits(true, s(second));
            assert!(!reach.is_cut_off());
        }
    }
}
