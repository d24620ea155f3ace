//! When the keys of a topic may go. Pure: `now`, and what the brokers and the database said, are passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use crate::kafka::{Stand, Stands};
use crate::store::Bound;

/// What clocks and brokers are allowed: a row bears the time at which its transaction began, and brokers look for what is
/// too old every five minutes.
pub const SLACK: Duration = Duration::from_secs(600);

/// Times by topic.
pub type Times = BTreeMap<String, SystemTime>;

/// Partitions of which a worker may have messages in memory.
pub type InHand = BTreeSet<(String, i32)>;

/// How long a message may wait in a worker's memory before anybody is free to write whose its partition is.
pub const QUEUED: Duration = Duration::from_secs(3_600);

/// What was noted of each topic.
#[derive(Debug, Default)]
pub struct Terms {
    topics: BTreeMap<String, Term>,
    /// Partitions that were read out, at this committed offset and this end.
    read: BTreeMap<(String, i32), (i64, i64)>,
    /// Since when partitions are rid of what the group has not committed.
    emptied: BTreeMap<(String, i32), SystemTime>,
}

/// The moment that the module `retention` calls *then*.
#[derive(Debug)]
struct Term {
    /// Keys that were processed before may go.
    before: SystemTime,
    /// The oldest record that was still to be sent.
    unsent: Option<SystemTime>,
    /// Once the group has committed these: the end of each partition.
    ends: BTreeMap<i32, i64>,
}

impl Terms {
    /// Notes the moment for each topic that waits for none. `now` was asked for first, then `unsent`, then the ends in
    /// `stands`: nothing that is still to be sent is older, and what was sent lies before the ends.
    pub fn note(&mut self, now: SystemTime, window: Duration, unsent: &Times, stands: &Stands) {
        for (topic, partitions) in by_topic(stands) {
            if self.topics.get(topic).is_some_and(|term| !term.is_void(&partitions)) {
                continue;
            }
            let unsent = unsent.get(topic).copied();
            let still = unsent.map_or(now, |unsent| now.min(unsent));
            let ends = partitions.iter().map(|(number, stand)| (*number, stand.end)).collect();
            self.topics.insert(topic.to_owned(), Term { before: before(still, window), unsent, ends });
        }
    }

    /// Enters which partitions are read out, and remembers it as long as neither end nor committed offset changes: the log
    /// that showed it may be deleted by then. Without a committed offset the database says it, each time.
    pub fn remember(&mut self, stands: &mut Stands) {
        for (place, stand) in stands {
            let Some(committed) = stand.committed else { continue };
            stand.read |= self.read.get(place) == Some(&(committed, stand.end));
            if stand.read {
                self.read.insert(place.clone(), (committed, stand.end));
            } else {
                self.read.remove(place);
            }
        }
    }

    /// Adds the partitions whose last messages may wait in a worker's memory, of which no row tells yet: those that are
    /// rid of them since a short while.
    pub fn with_queued(&mut self, now: SystemTime, stands: &Stands, mut in_hand: InHand) -> InHand {
        let topics = &self.topics;
        let end = |(topic, number): &(String, i32)| topics.get(topic)?.ends.get(number).copied();
        let is_rid = |place: &(String, i32), stand: &Stand| {
            end(place).is_some_and(|end| stand.start >= end && stand.committed < Some(end) && !stand.read)
        };
        self.emptied.retain(|place, _| stands.get(place).is_some_and(|stand| is_rid(place, stand)));
        for (place, _) in stands.iter().filter(|(place, stand)| is_rid(place, stand)) {
            let since = *self.emptied.entry(place.clone()).or_insert(now);
            if now.duration_since(since).unwrap_or_default() < QUEUED {
                in_hand.insert(place.clone());
            }
        }
        in_hand
    }

    /// The topics whose moment has come. Of the partitions `in_hand` a worker may have messages in memory that their
    /// topic does not keep any more. That was asked for after `stands`: who has them by then had them before.
    pub fn due(&self, stands: &Stands, in_hand: &InHand) -> BTreeSet<String> {
        let is_due = |topic: &str, partitions: &[(i32, Stand)]| {
            self.topics.get(topic).is_some_and(|term| {
                let passed = |(number, stand): &(i32, Stand)| {
                    term.passed(*number, *stand, in_hand.contains(&(topic.to_owned(), *number)))
                };
                partitions.iter().all(passed)
            })
        };
        by_topic(stands).filter(|(topic, all)| is_due(topic, all)).map(|(topic, _)| topic.to_owned()).collect()
    }

    /// The partitions that alone hold up a topic, and of which there is little that the group has not read: it may be
    /// marks of transactions.
    pub fn unsure(&self, stands: &Stands, in_hand: &InHand) -> Stands {
        let mut unsure = Stands::new();
        for (topic, all) in by_topic(stands) {
            let Some(term) = self.topics.get(topic) else { continue };
            let at = |number: i32| (topic.to_owned(), number);
            let open =
                all.iter().filter(|(number, stand)| !term.passed(*number, *stand, in_hand.contains(&at(*number))));
            let open: Vec<_> = open.collect();
            if open.iter().all(|(_, stand)| stand.is_near_end()) {
                unsure.extend(open.into_iter().map(|(number, stand)| (at(*number), *stand)));
            }
        }
        unsure
    }

    /// What may go of a topic that is [due](Self::due). `unkeyed` was asked for after `stands`: who read a message up to the
    /// committed offset has written its letter before.
    pub fn bounds(&self, topic: &str, window: Duration, unkeyed: &Times, stands: &Stands) -> Vec<Bound> {
        let Some(term) = self.topics.get(topic) else { return Vec::new() };
        let held = unkeyed.get(topic).map(|sent| before(*sent, window));
        let before = held.map_or(term.before, |held| held.min(term.before));
        let bound = |((_, partition), stand): (&(String, i32), &Stand)| {
            Some(Bound { topic: topic.to_owned(), partition: *partition, below: stand.committed?, before })
        };
        stands.iter().filter(|((of, _), _)| of == topic).filter_map(bound).collect()
    }

    /// It was swept: the next moment is noted in the next round.
    pub fn swept(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    /// What each topic that is not due waits for, for a person.
    pub fn waits_for(&self, stands: &Stands, in_hand: &InHand) -> BTreeMap<String, String> {
        let mut waits = BTreeMap::new();
        for (place, stand) in stands {
            let Some(term) = self.topics.get(&place.0).filter(|_| !waits.contains_key(&place.0)) else { continue };
            if term.passed(place.1, *stand, in_hand.contains(place)) {
                continue;
            }
            let end = term.ends.get(&place.1).copied().unwrap_or_default();
            let committed = stand.committed.map_or("nothing".to_owned(), |offset| offset.to_string());
            let hand = match stand.start >= end {
                true => " or to a later one, since a worker may have in memory what was deleted meanwhile",
                false => "",
            };
            let (topic, number) = place;
            let words = format!(
                "topic {topic}, partition {number}: the group has committed {committed}, and is to come to {end}{hand}"
            );
            waits.insert(topic.clone(), words);
        }
        waits
    }

    /// What holds back a topic that is due so far that keys stay which are older than two windows, for a person.
    pub fn held_back(&self, topic: &str, now: SystemTime, window: Duration, unkeyed: &Times) -> Option<String> {
        let late = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > window);
        let unsent = self.topics.get(topic).and_then(|term| term.unsent).filter(late);
        let unkeyed = unkeyed.get(topic).copied().filter(late);
        let age = |time: SystemTime| now.duration_since(time).unwrap_or_default().as_secs() / 3_600;
        let unsent = unsent.map(|time| {
            format!("a record in the outbox, or kept as sent, that was enqueued {} h ago: `outbox list`", age(time))
        });
        let unkeyed = unkeyed.map(|time| {
            format!(
                "a dead letter without a key, of a message of {} h ago: `dead-letters list --topic {topic}`",
                age(time)
            )
        });
        let all: Vec<String> = unsent.into_iter().chain(unkeyed).collect();
        (!all.is_empty()).then(|| format!("older keys alone go, since the clock is stopped by {}", all.join(" and ")))
    }
}

impl Term {
    /// Whether everything that lay in a partition has been read. One that was made later held nothing. One without a
    /// committed offset was never read: it must be empty. What the topic deleted is read by nobody, unless a worker may
    /// have it in hand: tried and waiting, or in its queue, of which no row tells. Behind the last message may lie marks
    /// of transactions, which no committed offset comes to.
    fn passed(&self, number: i32, stand: Stand, in_hand: bool) -> bool {
        let Some(end) = self.ends.get(&number) else { return true };
        let is_gone = stand.start >= *end;
        match stand.committed {
            Some(committed) => committed >= *end || stand.read || is_gone && !in_hand,
            None => *end == 0 || is_gone && (stand.read || !in_hand),
        }
    }

    /// The topic was made anew: its ends say nothing of the old one's, nor theirs of it.
    fn is_void(&self, partitions: &[(i32, Stand)]) -> bool {
        partitions.iter().any(|(number, stand)| self.ends.get(number).is_some_and(|end| stand.end < *end))
    }
}

/// A window and the slack before a time; what is too long for the clock leaves nothing before.
fn before(time: SystemTime, window: Duration) -> SystemTime {
    time.checked_sub(window.saturating_add(SLACK)).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn by_topic(stands: &Stands) -> impl Iterator<Item = (&str, Vec<(i32, Stand)>)> {
    let mut topics: BTreeMap<&str, Vec<(i32, Stand)>> = BTreeMap::new();
    for ((topic, number), stand) in stands {
        topics.entry(topic).or_default().push((*number, *stand));
    }
    topics.into_iter()
}

#[cfg(test)]
mod tests;
