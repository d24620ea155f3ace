//! Who has too much of the window, and gives it back.
//!
//! A topic that does not move may have half of what the others of its kind left. Of one that moves
//! the same is true of what is in trouble, which a partition without a leader may be alone; and of
//! each lane only so much is held, for it leaves one by one. What is over is given up from the end,
//! highest ids first, and read again later.
//!
//! The invariant that keeps the order of a lane: nothing is held, or taken, that comes after a row
//! of it that is in the outbox only. So things are given up only while nothing is being read, and a lane of
//! which a row had to wait outside takes none before that one.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Bounds, Held, Lane, Slot, State, Window, lane};
use crate::outbox::relay::topics::{Share, Topic};

/// A record that is on its way for so long is in trouble.
const SLOW: Duration = Duration::from_secs(1);
/// One lane may have so small a part of the window, and two records in any case.
const LANES: usize = 16;

impl<R> Window<R> {
    /// Topics that have what they may while nothing of them moves: no more is to be read of them.
    /// `None`: one of them has only begun, and to wait a moment for its first report is better than
    /// to read past all its records.
    pub fn crowded(&self, now: Duration) -> Option<Vec<String>> {
        let crowded = self.topics.iter().filter(|(_, topic)| topic.held.rows > 0 && !self.has_room(topic, now));
        crowded.map(|(name, topic)| (!topic.begins(now)).then(|| name.to_string())).collect()
    }

    pub(super) fn has_room(&self, topic: &Topic, now: Duration) -> bool {
        let stuck = topic.stuck(now);
        stuck.rows == 0 || stuck.is_below(self.cap(topic, now))
    }

    /// What of a topic may be stuck.
    fn cap(&self, topic: &Topic, now: Duration) -> Share {
        let others = self.topics.values().filter(|other| !std::ptr::eq(*other, topic));
        let stuck = others.fold(Share::default(), |sum, other| sum.and(other.stuck(now)));
        Share::all(self.bounds).cap(stuck)
    }

    /// Whether a read is worth its while: a quarter is free of what is not stuck.
    pub fn is_roomy(&self, now: Duration) -> bool {
        let Bounds { rows, bytes } = self.room();
        let stuck = self.topics.values().fold(Share::default(), |sum, topic| sum.and(topic.stuck(now)));
        let others = Share::all(self.bounds).less(stuck);
        rows >= others.rows.div_ceil(4).max(1) && bytes >= others.bytes.div_ceil(4).max(1)
    }

    /// Gives up what is held beyond the caps, and lets lanes that have room again be read. Not
    /// while something is being read: what comes of it may be behind what is given up.
    pub fn prune(&mut self, now: Duration) {
        let slow = self.slow(now);
        self.topics.values_mut().for_each(|topic| topic.slow = Share::default());
        for slot in &slow {
            let entry = &self.slots[*slot].as_ref().expect("what is slow is held").entry;
            self.topics.get_mut(&entry.topic).expect("a record's topic is known").slow.add(entry.size);
        }
        let names: Vec<Arc<str>> = self.topics.keys().cloned().collect();
        for name in names {
            let gone = self.surplus(&name, &slow, now);
            self.forget(&gone);
        }
        self.unpark();
    }

    /// What is in trouble, and what waits behind it.
    fn slow(&self, now: Duration) -> Vec<Slot> {
        let is_slow = |slot: &Slot| self.slots[*slot].as_ref().is_some_and(|held| held.is_slow(now));
        let alone = |slot: &Slot| self.slots[*slot].as_ref().is_some_and(|held| held.entry.lane.is_none());
        let behind = self.lanes.values().filter(|queue| queue.slots.front().is_some_and(is_slow));
        let behind = behind.flat_map(|queue| queue.slots.iter().copied());
        (0..self.slots.len()).filter(alone).filter(is_slow).chain(behind).collect()
    }

    /// What of a topic is to be given up; none of it is on its way.
    fn surplus(&self, name: &str, slow: &[Slot], now: Duration) -> HashSet<Slot> {
        let mut gone = HashSet::new();
        let topic = &self.topics[name];
        let (mut left, cap) = (topic.stuck(now), self.cap(topic, now));
        if left.is_below(cap) || topic.begins(now) {
            return gone;
        }
        let waiting = |slot: Slot| {
            let held = self.slots[slot].as_ref()?;
            let waits = held.state == State::Queued && &*held.entry.topic == name;
            waits.then_some((held.entry.id, slot, held.entry.size))
        };
        let mut waiting: Vec<(i64, Slot, usize)> = if topic.moves(now) {
            slow.iter().copied().filter_map(waiting).collect()
        } else {
            (0..self.slots.len()).filter_map(waiting).collect()
        };
        waiting.sort_unstable_by(|one, other| other.cmp(one));
        for (_, slot, size) in waiting {
            left.sub(size);
            if left.is_below(cap) {
                break;
            }
            gone.insert(slot);
        }
        gone
    }

    /// Takes records out that wait, all at once.
    pub(super) fn forget(&mut self, gone: &HashSet<Slot>) {
        let (mut topics, mut lanes) = (HashSet::new(), HashSet::new());
        for slot in gone {
            let Held { entry, .. } = self.slots[*slot].take().expect("what is given up is held");
            self.free.push(*slot);
            self.ids.remove(&entry.id);
            self.bytes -= entry.size;
            self.topics.get_mut(&entry.topic).expect("a record's topic is known").held.sub(entry.size);
            if let Some(lane) = lane(&entry) {
                self.lanes.get_mut(&lane).expect("what waits is in its lane").bytes -= entry.size;
                lanes.insert(lane);
            }
            topics.insert(entry.topic);
        }
        for name in topics {
            self.topics.get_mut(&name).expect("it was there above").ready.retain(|slot| !gone.contains(slot));
        }
        for lane in lanes {
            self.shorten(&lane, gone);
        }
    }

    fn shorten(&mut self, lane: &Lane, gone: &HashSet<Slot>) {
        let queue = self.lanes.get_mut(lane).expect("it was there above");
        let led = queue.slots.front().copied();
        queue.slots.retain(|slot| !gone.contains(slot));
        match queue.slots.front() {
            None => _ = self.lanes.remove(lane),
            next if next == led.as_ref() => {}
            Some(next) => {
                let topic = self.topics.get_mut(&lane.0).expect("a record's topic is known");
                topic.ready.push_back(*next);
            }
        }
    }

    /// Whether that row has to wait outside: its lane has what it may, or an earlier one waits there.
    pub(super) fn parks(&mut self, lane: Lane, id: i64) -> bool {
        let behind = self.parked.get(&lane).and_then(BTreeSet::first).is_some_and(|first| *first < id);
        let waits = behind || self.room_of(&lane) == 0;
        if waits && self.parked_rows < self.bounds.rows {
            self.parked_rows += usize::from(self.parked.entry(lane).or_default().insert(id));
        }
        waits
    }

    /// How many rows more a lane may have.
    fn room_of(&self, lane: &Lane) -> usize {
        let has = self.lanes.get(lane).map_or((0, 0), |queue| (queue.slots.len(), queue.bytes));
        let room = (self.bounds.rows / LANES).saturating_sub(has.0);
        let least = 2_usize.saturating_sub(has.0);
        if has.1 < self.bounds.bytes / LANES { room.max(least) } else { least }
    }

    /// Of lanes that have half of what they may, or less, the next rows are to be read again.
    fn unpark(&mut self) {
        let mut parked = std::mem::take(&mut self.parked);
        for (lane, ids) in &mut parked {
            let room = self.room_of(lane);
            if room.saturating_mul(2) >= self.bounds.rows / LANES {
                (0..room).for_each(|_| _ = ids.pop_first());
            }
        }
        parked.retain(|_, ids| !ids.is_empty());
        self.parked_rows = parked.values().map(BTreeSet::len).sum();
        self.parked = parked;
    }
}

impl<R> Held<R> {
    fn is_slow(&self, now: Duration) -> bool {
        match self.state {
            State::Flying => now.saturating_sub(self.launched) >= SLOW,
            State::Queued => self.troubled,
            State::Marking | State::Recording => false,
        }
    }
}
