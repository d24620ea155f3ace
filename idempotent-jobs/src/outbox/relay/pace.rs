//! When to read again, and whether enqueueing has to wake the relay. Pure; times are passed in.

use std::time::Duration;

/// Between two reads that find little: what comes meanwhile is read together.
const LEAST: Duration = Duration::from_millis(2);
/// Between reads while nobody wakes the relay.
const AWAKE: Duration = Duration::from_millis(10);
/// The fallback, should a word be missed.
const ASLEEP: Duration = Duration::from_millis(200);
/// Between reads that step over all records of topics that do not move.
const CROWDED: Duration = Duration::from_millis(500);
/// So many rows are a backlog: the next read follows at once.
const MANY: usize = 100;
/// A relay that finds something in so many reads of a second, or so many rows, is busy: to be
/// woken for each would only slow those who enqueue.
const BUSY_READS: usize = 100;
const BUSY_ROWS: usize = 5_000;
/// A transaction that enqueued before the relay went to sleep may be committed so much later.
const SETTLE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    next: Duration,
    began: Duration,
    interval: Duration,
    /// Something was enqueued since the last read began.
    woken: bool,
    /// Since when the database says that the relay is asleep.
    asleep_since: Option<Duration>,
    reads: usize,
    rows: usize,
}

impl Pace {
    pub fn new() -> Self {
        Self {
            next: Duration::ZERO,
            began: Duration::ZERO,
            interval: LEAST,
            woken: false,
            asleep_since: None,
            reads: 0,
            rows: 0,
        }
    }

    /// When to read next.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// A read begins.
    pub fn reads(&mut self, now: Duration) {
        self.began = now;
        self.woken = false;
        self.next = now + AWAKE;
    }

    /// A read ended. `wasted`: most of what was read cannot be taken yet. `crowded`: it had to step
    /// over records.
    pub fn read(&mut self, now: Duration, found: usize, wasted: bool, crowded: bool) {
        self.rows += found;
        self.reads += usize::from(found > 0);
        if found >= MANY {
            (self.interval, self.next) = (LEAST, now);
        } else if wasted && (found > 0 || !crowded) {
            (self.interval, self.next) = (LEAST, now + AWAKE);
        } else if found > 0 || self.woken {
            (self.interval, self.next) = (LEAST, self.began + LEAST);
        } else {
            self.interval = (self.interval * 2).min(if crowded { CROWDED } else { self.longest(now) });
            self.next = now + if crowded { CROWDED } else { self.interval };
        }
    }

    /// Something was enqueued.
    pub fn woken(&mut self, now: Duration) {
        self.woken = true;
        self.next = self.next.min(now.max(self.began + LEAST));
    }

    fn longest(&self, now: Duration) -> Duration {
        let settled = self.asleep_since.is_some_and(|since| now >= since + SETTLE);
        if settled { ASLEEP } else { AWAKE }
    }

    /// Whether the relay wants to be woken, by what it did since the last call: asked each second.
    pub fn falls_asleep(&mut self) -> bool {
        let busy = self.reads >= BUSY_READS || self.rows >= BUSY_ROWS;
        (self.reads, self.rows) = (0, 0);
        !busy
    }

    /// The database says so now.
    pub fn told(&mut self, asleep: bool, now: Duration) {
        self.asleep_since = asleep.then(|| self.asleep_since.unwrap_or(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Reads as it is told to, finding nothing, until `until`; how often.
    fn idle(pace: &mut Pace, until: Duration) -> usize {
        idle_slowly(pace, ms(1), until)
    }

    /// The same where each read takes so long.
    fn idle_slowly(pace: &mut Pace, takes: Duration, until: Duration) -> usize {
        let mut reads = 0;
        while pace.next() < until {
            let now = pace.next();
            pace.reads(now);
            pace.read(now + takes, 0, false, false);
            reads += 1;
        }
        reads
    }

    #[test]
    fn an_idle_relay_polls_now_and_then_once_it_can_be_woken() {
        let mut pace = Pace::new();
        assert!(idle(&mut pace, ms(1_000)) > 80, "nobody would wake it yet");
        assert!(pace.falls_asleep());
        pace.told(true, ms(1_000));
        assert!(idle(&mut pace, ms(2_000)) > 80, "who enqueued before may commit now");
        idle(&mut pace, ms(3_000));
        assert!(idle(&mut pace, ms(13_000)) < 60);
    }

    /// It would take from the jobs what they need, and be the slower for it.
    #[test]
    fn a_slow_read_is_no_reason_to_read_again() {
        let mut pace = Pace::new();
        pace.told(true, ms(0));
        idle_slowly(&mut pace, ms(30), ms(3_000));
        let reads = idle_slowly(&mut pace, ms(30), ms(13_000));
        assert!((40..50).contains(&reads), "{reads} in ten seconds");
        pace.reads(ms(14_000));
        pace.woken(ms(14_020));
        pace.read(ms(14_030), 0, false, false);
        assert!(pace.next() <= ms(14_030), "woken while it read, it reads again");
    }

    #[test]
    fn who_is_woken_reads_at_once_and_not_in_a_circle() {
        let mut pace = Pace::new();
        pace.told(true, ms(0));
        idle(&mut pace, ms(5_000));
        pace.woken(ms(5_050));
        assert_eq!(pace.next(), ms(5_050));
        pace.reads(ms(5_050));
        pace.woken(ms(5_051));
        pace.read(ms(5_051), 1, false, false);
        assert_eq!(pace.next(), ms(5_052), "what came meanwhile is looked for again, a moment later");
    }

    #[test]
    fn a_backlog_is_read_without_pause_and_keeps_awake() {
        let mut pace = Pace::new();
        for second in 0..10 {
            pace.reads(ms(second));
            pace.read(ms(second), 4_000, false, false);
            assert_eq!(pace.next(), ms(second));
        }
        assert!(!pace.falls_asleep());
        assert!(pace.falls_asleep());
    }
}
