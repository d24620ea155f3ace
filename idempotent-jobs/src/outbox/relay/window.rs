//! What a relay holds in memory: which record may leave next. Pure.
//!
//! The invariant: of one lane, the records of one topic and partition key, at most one is on its
//! way, and they start in the order in which they were admitted. Records without a lane are free.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::topics::{Share, Topic, cap};

#[cfg(test)]
mod tests;

/// The place of a record in the window: it is the record's until it is removed.
pub(crate) type Slot = usize;

/// At most so much is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub rows: usize,
    pub bytes: usize,
}

/// A record, and what the window has to know of it.
#[derive(Debug)]
pub(crate) struct Entry<R> {
    pub shard: i16,
    pub id: i64,
    pub topic: Arc<str>,
    /// `None`: it keeps no order.
    pub lane: Option<Arc<str>>,
    pub size: usize,
    pub record: R,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for its turn.
    Queued,
    /// On its way: one report will come.
    Flying,
    /// Kafka has it, the database is to hear so.
    Marking,
    /// Refused, the database is to hear so; its lane waits.
    Recording,
}

#[derive(Debug)]
struct Held<R> {
    entry: Entry<R>,
    state: State,
}

type Lane = (Arc<str>, Arc<str>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Window<R> {
    bounds: Bounds,
    slots: Vec<Option<Held<R>>>,
    free: Vec<Slot>,
    ids: HashMap<i64, Slot>,
    lanes: HashMap<Lane, VecDeque<Slot>>,
    topics: HashMap<Arc<str>, Topic>,
    bytes: usize,
    flying: usize,
}

impl<R> Window<R> {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            slots: Vec::new(),
            free: Vec::new(),
            ids: HashMap::new(),
            lanes: HashMap::new(),
            topics: HashMap::new(),
            bytes: 0,
            flying: 0,
        }
    }

    /// How many records and bytes more may be asked for.
    pub fn room(&self) -> Bounds {
        Bounds {
            rows: self.bounds.rows.saturating_sub(self.ids.len()),
            bytes: self.bounds.bytes.saturating_sub(self.bytes),
        }
    }

    /// The ids of all that is held.
    pub fn ids(&self) -> Vec<i64> {
        self.ids.keys().copied().collect()
    }

    /// How many records are on their way.
    pub fn flying(&self) -> usize {
        self.flying
    }

    /// The shards of which something is on its way, or still to be told to the database.
    pub fn busy(&self) -> HashSet<i16> {
        let busy = self.slots.iter().flatten().filter(|held| held.state != State::Queued);
        busy.map(|held| held.entry.shard).collect()
    }

    /// The topic under that name, which all its records share.
    pub fn topic(&mut self, name: &str) -> Arc<str> {
        if let Some((topic, _)) = self.topics.get_key_value(name) {
            return Arc::clone(topic);
        }
        let topic: Arc<str> = name.into();
        self.topics.insert(Arc::clone(&topic), Topic::default());
        topic
    }

    /// Topics that have what they may while nothing of them moves: no more is to be read of them.
    /// `None`: one of them has only begun, and to wait a moment for its first report is better than
    /// to read past all its records.
    pub fn crowded(&self, now: Duration) -> Option<Vec<String>> {
        let crowded = self.topics.iter().filter(|(_, topic)| topic.rows > 0 && !self.has_room(topic, now));
        crowded.map(|(name, topic)| topic.is_stuck(now).then(|| name.to_string())).collect()
    }

    fn has_room(&self, topic: &Topic, now: Duration) -> bool {
        if topic.moves(now) {
            return true;
        }
        let stuck = self.topics.values().filter(|other| !std::ptr::eq(*other, topic) && !other.moves(now));
        let others = stuck.fold(Share::default(), |sum, topic| sum.and(topic));
        topic.rows < cap(self.bounds.rows, others.rows) && topic.bytes < cap(self.bounds.bytes, others.bytes).max(1)
    }

    /// Takes what was read, in the order of ids; how many were taken. What is held already is
    /// ignored, and of a topic that has what it may, the rest is left for another time.
    pub fn admit(&mut self, entries: impl IntoIterator<Item = Entry<R>>, now: Duration) -> usize {
        let mut refused: HashSet<Arc<str>> = HashSet::new();
        let mut taken = 0;
        for entry in entries {
            if self.ids.contains_key(&entry.id) || refused.contains(&entry.topic) {
                continue;
            }
            let topic = self.topic(&entry.topic);
            if self.topics.get(&topic).is_some_and(|topic| !self.has_room(topic, now)) {
                // All of it from here on: a later one of the same key must not come first.
                refused.insert(topic);
                continue;
            }
            self.insert(Entry { topic, ..entry }, now);
            taken += 1;
        }
        taken
    }

    fn insert(&mut self, entry: Entry<R>, now: Duration) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.ids.insert(entry.id, slot);
        self.bytes += entry.size;
        let leads = match lane(&entry) {
            Some(lane) => {
                let lane = self.lanes.entry(lane).or_default();
                lane.push_back(slot);
                lane.len() == 1
            }
            None => true,
        };
        let topic = self.topics.entry(Arc::clone(&entry.topic)).or_default();
        topic.add(entry.size, now);
        if leads {
            topic.ready.push_back(slot);
        }
        self.slots[slot] = Some(Held { entry, state: State::Queued });
    }

    /// Up to `most` records that may leave now, of shards for which `may` says so. Each is on its
    /// way until its report, or until [`back`](Self::back).
    pub fn launch(&mut self, now: Duration, most: usize, may: impl Fn(i16) -> bool) -> Vec<Slot> {
        let mut launched = Vec::new();
        for topic in self.topics.values_mut().filter(|topic| !topic.is_paused(now)) {
            let mut held_back = VecDeque::new();
            while launched.len() < most
                && let Some(slot) = topic.ready.pop_front()
            {
                let held = self.slots[slot].as_mut().expect("what is ready is held");
                if may(held.entry.shard) {
                    held.state = State::Flying;
                    self.flying += 1;
                    launched.push(slot);
                } else {
                    held_back.push_back(slot);
                }
            }
            if !held_back.is_empty() {
                held_back.append(&mut topic.ready);
                topic.ready = held_back;
            }
        }
        launched
    }

    /// The record.
    pub fn get(&self, slot: Slot) -> &Entry<R> {
        &self.slots[slot].as_ref().expect("a slot is its record's until it is removed").entry
    }

    /// The record, to be changed.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Entry<R> {
        &mut self.slots[slot].as_mut().expect("a slot is its record's until it is removed").entry
    }

    /// Whether that slot waits for a report.
    pub fn is_flying(&self, slot: Slot) -> bool {
        self.slots.get(slot).and_then(Option::as_ref).is_some_and(|held| held.state == State::Flying)
    }

    /// All that is on its way.
    pub fn all_flying(&self) -> Vec<Slot> {
        (0..self.slots.len()).filter(|slot| self.is_flying(*slot)).collect()
    }

    /// It did not leave: it is the next of its lane again. `owned`: whether its shard is.
    pub fn back(&mut self, slot: Slot, owned: bool) {
        self.land(slot, State::Queued);
        if !owned {
            self.remove(slot);
            return;
        }
        let name = Arc::clone(&self.get(slot).topic);
        self.topics.entry(name).or_default().ready.push_front(slot);
    }

    /// Kafka has it: the next of its lane may leave.
    pub fn confirmed(&mut self, slot: Slot, now: Duration) {
        self.land(slot, State::Marking);
        let entry = &self.slots[slot].as_ref().expect("it flew").entry;
        let (lane, name) = (lane(entry), Arc::clone(&entry.topic));
        let next = lane.and_then(|lane| self.leave(&lane, slot));
        let topic = self.topics.entry(name).or_default();
        topic.moved(now);
        topic.ready.extend(next);
    }

    /// It was refused. `true`: the database is to hear so, and its lane waits until then. `false`:
    /// its shard is not owned any more, and the record is forgotten.
    pub fn refused(&mut self, slot: Slot, now: Duration, owned: bool) -> bool {
        self.land(slot, State::Recording);
        if owned {
            let name = Arc::clone(&self.get(slot).topic);
            self.topics.entry(name).or_default().moved(now);
        } else {
            self.remove(slot);
        }
        owned
    }

    fn land(&mut self, slot: Slot, state: State) {
        let held = self.slots[slot].as_mut().expect("what flew is held");
        debug_assert_eq!(held.state, State::Flying, "one report a record");
        held.state = state;
        self.flying -= 1;
    }

    /// The database heard that it was sent.
    pub fn marked(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|slot| self.remove(*slot));
    }

    /// The database heard that it was refused. What waits behind it is forgotten with it, and read
    /// again when its turn has come.
    pub fn recorded(&mut self, slot: Slot) {
        let lane = lane(self.get(slot));
        let all = lane.and_then(|lane| self.lanes.remove(&lane)).unwrap_or_else(|| VecDeque::from([slot]));
        all.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Trouble on the way to a topic: nothing of it leaves before `until`.
    pub fn pause(&mut self, topic: &str, until: Duration) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.pause(until);
        }
    }

    /// How often in a row a topic was in trouble; `None` while it is paused for it already.
    pub fn troubles(&self, topic: &str, now: Duration) -> Option<u32> {
        self.topics.get(topic).filter(|topic| !topic.is_paused(now)).map(|topic| topic.troubles)
    }

    /// When the first pause of a topic ends that has something to send.
    pub fn resumes(&self, now: Duration) -> Option<Duration> {
        let paused = self.topics.values().filter(|topic| topic.is_paused(now) && !topic.ready.is_empty());
        paused.filter_map(|topic| topic.paused_until).min()
    }

    /// Forgets what waits of these shards. What is on its way keeps its place until its report.
    pub fn lose(&mut self, shards: &[i16]) {
        for slot in 0..self.slots.len() {
            let waits = |held: &Held<R>| held.state == State::Queued && shards.contains(&held.entry.shard);
            if self.slots[slot].as_ref().is_some_and(waits) {
                self.remove(slot);
            }
        }
    }

    /// Takes a record out of everything.
    fn remove(&mut self, slot: Slot) {
        let held = self.slots[slot].take().expect("it is removed once");
        self.free.push(slot);
        self.ids.remove(&held.entry.id);
        self.bytes -= held.entry.size;
        let next = match lane(&held.entry) {
            Some(lane) if held.state != State::Marking => self.leave(&lane, slot),
            _ => None,
        };
        let topic = self.topics.get_mut(&held.entry.topic).expect("a record's topic is known");
        topic.rows -= 1;
        topic.bytes -= held.entry.size;
        if held.state == State::Queued {
            topic.ready.retain(|ready| *ready != slot);
        }
        topic.ready.extend(next);
    }

    /// Takes a slot out of its lane; the one that leads it now, if it did not before.
    fn leave(&mut self, lane: &Lane, slot: Slot) -> Option<Slot> {
        let queue = self.lanes.get_mut(lane)?;
        let led = queue.front() == Some(&slot);
        if led {
            queue.pop_front();
        } else {
            queue.retain(|other| *other != slot);
        }
        let next = queue.front().copied();
        if next.is_none() {
            self.lanes.remove(lane);
        }
        next.filter(|_| led)
    }
}

fn lane<R>(entry: &Entry<R>) -> Option<Lane> {
    entry.lane.as_ref().map(|lane| (Arc::clone(&entry.topic), Arc::clone(lane)))
}
