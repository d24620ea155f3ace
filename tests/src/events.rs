//! What happened to the messages, as the programs under test told it, and waiting for more.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idempotent_jobs::__private::{Point, Probe};
use idempotent_jobs::Coordinates;

/// A topic's partition.
type Place = (Arc<str>, i32);

/// Which program told it, in the order they were started.
pub type Source = u32;

/// A message that reached a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub source: Source,
    pub point: Point,
    pub at: Coordinates,
}

/// Everything seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    pub events: Vec<Event>,
    /// Lines the programs wrote beside their events.
    pub said: Vec<(Source, String)>,
    counts: HashMap<(Source, Point), usize>,
    committed: HashMap<Place, i64>,
    accepted: HashMap<Place, i64>,
    sent: HashMap<Place, i64>,
    sending: usize,
    started: HashSet<Source>,
    ended: HashSet<Source>,
    dismissed: HashSet<Source>,
}

impl Seen {
    /// How often a program's messages reached a point.
    pub fn count(&self, source: Source, point: Point) -> usize {
        self.counts.get(&(source, point)).copied().unwrap_or(0)
    }

    /// How often any message reached a point.
    pub fn total(&self, point: Point) -> usize {
        self.counts.iter().filter(|((_, at), _)| *at == point).map(|(_, count)| count).sum()
    }

    /// Whether the offset, and so every one below it, is committed to Kafka.
    pub fn is_committed(&self, topic: &str, partition: i32, offset: i64) -> bool {
        self.committed.get(&(Arc::from(topic), partition)).is_some_and(|highest| *highest >= offset)
    }

    /// Whether the workers of this process, which are all there are, have read everything that was sent.
    pub fn is_all_accepted(&self) -> bool {
        let reaches = |offsets: &HashMap<Place, i64>, place, end| offsets.get(place).is_some_and(|it| it >= end);
        self.sending == 0
            && self.sent.iter().all(|(at, end)| reaches(&self.accepted, at, end) || reaches(&self.committed, at, end))
    }

    /// Whether the program wrote a line that contains this.
    pub fn has_said(&self, source: Source, words: &str) -> bool {
        self.said.iter().any(|(who, line)| *who == source && line.contains(words))
    }

    /// Whether the program ended.
    pub fn has_ended(&self, source: Source) -> bool {
        self.ended.contains(&source)
    }

    /// A program that ended and was not dismissed.
    pub fn deserter(&self) -> Option<Source> {
        self.ended.difference(&self.dismissed).min().copied()
    }

    /// Counts and last lines, for whoever reads a failure.
    pub fn describe(&self) -> String {
        const LINES: usize = 80;
        let mut text = String::new();
        let mut counts: Vec<_> =
            self.counts.iter().map(|((source, point), n)| (*source, format!("{point:?}"), n)).collect();
        counts.sort();
        for (source, point, n) in counts {
            let _ = writeln!(text, "  program {source}: {n} × {point}");
        }
        for (source, line) in self.said.iter().rev().take(LINES).rev() {
            let _ = writeln!(text, "  program {source} | {line}");
        }
        text
    }
}

/// The record shared by the programs' readers and the test.
#[derive(Debug, Default)]
pub struct Events {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Events {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn record(&self, source: Source, point: Point, at: Coordinates) {
        let mut seen = self.seen();
        if point == Point::Accepted {
            raise(&mut seen.accepted, at);
            self.changed.notify_all();
            return;
        }
        *seen.counts.entry((source, point)).or_default() += 1;
        if point == Point::OffsetCommitted {
            raise(&mut seen.committed, at.clone());
        }
        seen.events.push(Event { source, point, at });
        self.changed.notify_all();
    }

    /// Something is about to be sent, until [`sent`](Self::sent) says what.
    pub fn sending(&self) {
        self.seen().sending += 1;
    }

    /// This was sent.
    pub fn sent(&self, all: impl IntoIterator<Item = Coordinates>) {
        let mut seen = self.seen();
        seen.sending -= 1;
        all.into_iter().for_each(|at| raise(&mut seen.sent, at));
        self.changed.notify_all();
    }

    /// A program starts in this process. What others read that are gone by then is to be read again.
    pub fn start(&self, source: Source) {
        let mut seen = self.seen();
        if seen.started.is_subset(&seen.ended) {
            seen.accepted.clear();
        }
        seen.started.insert(source);
    }

    pub fn say(&self, source: Source, line: String) {
        self.seen().said.push((source, line));
        self.changed.notify_all();
    }

    /// The program ended; unless it was dismissed, whoever waits fails.
    pub fn end(&self, source: Source) {
        self.seen().ended.insert(source);
        self.changed.notify_all();
    }

    /// This program may end from now on.
    pub fn dismiss(&self, source: Source) {
        self.seen().dismissed.insert(source);
    }

    /// Waits until `found` finds something.
    ///
    /// # Panics
    /// At the deadline, or when a program ended that was not dismissed, with what was seen.
    pub fn wait<T>(&self, what: &str, limit: Duration, mut found: impl FnMut(&Seen) -> Option<T>) -> T {
        let deadline = Instant::now() + limit;
        let mut seen = self.seen();
        loop {
            if let Some(it) = found(&seen) {
                return it;
            }
            if let Some(source) = seen.deserter() {
                panic!("program {source} ended while waiting for {what}:\n{}", seen.describe());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited {limit:?} in vain for {what}:\n{}", seen.describe());
            seen = self.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether it comes to hold within the time.
    pub fn wait_briefly(&self, limit: Duration, holds: impl Fn(&Seen) -> bool) -> bool {
        let seen = self.seen();
        let waited = self.changed.wait_timeout_while(seen, limit, |seen| !holds(seen) && seen.deserter().is_none());
        let (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
        holds(&seen)
    }

    /// Waits until a program's messages reached a point so often.
    pub fn wait_count(&self, source: Source, point: Point, times: usize) {
        let what = format!("{times} × {point:?} of program {source}");
        self.wait(&what, crate::PATIENCE, |seen| (seen.count(source, point) >= times).then_some(()));
    }
}

fn raise(highest: &mut HashMap<Place, i64>, at: Coordinates) {
    let highest = highest.entry((at.topic, at.partition)).or_insert(-1);
    *highest = at.offset.max(*highest);
}

/// A probe that tells a record in this process.
pub struct Watch {
    pub source: Source,
    pub events: Arc<Events>,
}

impl Probe for Watch {
    fn reached(&self, point: Point, at: &Coordinates) {
        self.events.record(self.source, point, at.clone());
    }
}

/// Every point, with the word programs use for it.
pub const POINTS: &[(Point, &str)] = &[
    (Point::Accepted, "accepted"),
    (Point::Claimed, "claimed"),
    (Point::Handled, "handled"),
    (Point::Committed, "committed"),
    (Point::Buried, "buried"),
    (Point::Skipped, "skipped"),
    (Point::Recorded, "recorded"),
    (Point::OffsetCommitted, "offset-committed"),
];

/// The word for a point.
pub fn word(point: Point) -> &'static str {
    POINTS.iter().find(|(known, _)| *known == point).map_or("?", |(_, word)| word)
}

/// The point of a word.
pub fn point(word: &str) -> Option<Point> {
    POINTS.iter().find(|(_, known)| *known == word).map(|(point, _)| *point)
}

/// The line a program writes for an event.
pub fn line(point: Point, at: &Coordinates) -> String {
    format!("at {} {} {} {}", word(point), at.topic, at.partition, at.offset)
}

/// Reads such a line.
pub fn parse(line: &str) -> Option<(Point, Coordinates)> {
    let mut words = line.strip_prefix("at ")?.split(' ');
    let point = point(words.next()?)?;
    let topic = Arc::from(words.next()?);
    Some((point, Coordinates { topic, partition: words.next()?.parse().ok()?, offset: words.next()?.parse().ok()? }))
}
