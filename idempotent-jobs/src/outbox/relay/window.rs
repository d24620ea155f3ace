//! What a relay holds in memory: which record may leave next. Pure.
//!
//! The invariant: of one lane, the records of one topic and partition key, at most one is on its
//! way, and they start in the order in which they were admitted. Records without a lane are free.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::topics::{Share, Topic};

mod crowd;
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
    /// When it last left.
    launched: Duration,
    /// It came back, for the brokers or the way to them.
    troubled: bool,
}

type Lane = (Arc<str>, Arc<str>);

/// What is held of a lane, in its order.
#[derive(Debug, Default)]
struct Queue {
    slots: VecDeque<Slot>,
    bytes: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Window<R> {
    bounds: Bounds,
    slots: Vec<Option<Held<R>>>,
    free: Vec<Slot>,
    ids: HashMap<i64, Slot>,
    lanes: HashMap<Lane, Queue>,
    topics: HashMap<Arc<str>, Topic>,
    bytes: usize,
    flying: Share,
    /// Rows that were read and not taken, their lane having what it may: not to be read again
    /// before it has room.
    parked: HashMap<Lane, BTreeSet<i64>>,
    parked_rows: usize,
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
            flying: Share::default(),
            parked: HashMap::new(),
            parked_rows: 0,
        }
    }

    /// How many records and bytes more may be asked for.
    pub fn room(&self) -> Bounds {
        Bounds {
            rows: self.bounds.rows.saturating_sub(self.ids.len()),
            bytes: self.bounds.bytes.saturating_sub(self.bytes),
        }
    }

    /// The ids of all that is held, and of what is known and has to wait outside.
    pub fn ids(&self) -> Vec<i64> {
        self.ids.keys().chain(self.parked.values().flatten()).copied().collect()
    }

    /// How many records are on their way.
    pub fn flying(&self) -> usize {
        self.flying.rows
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

    /// Takes what was read, in the order of ids; how many were taken. What is held already is
    /// ignored; of a topic or a lane that has what it may, the rest is left for another time.
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
            if lane(&entry).is_some_and(|lane| self.parks(lane, entry.id)) {
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
                let queue = self.lanes.entry(lane).or_default();
                queue.slots.push_back(slot);
                queue.bytes += entry.size;
                queue.slots.len() == 1
            }
            None => true,
        };
        let topic = self.topics.entry(Arc::clone(&entry.topic)).or_default();
        topic.add(entry.size, now);
        if leads {
            topic.ready.push_back(slot);
        }
        self.slots[slot] = Some(Held { entry, state: State::Queued, launched: now, troubled: false });
    }

    /// Up to `most` records that may leave now, of shards for which `may` says so. Each is on its
    /// way until its report, or until [`back`](Self::back). What is on its way cannot be given up,
    /// so of that too a topic has at most half of what the others left.
    pub fn launch(&mut self, now: Duration, most: usize, may: impl Fn(i16) -> bool) -> Vec<Slot> {
        let mut launched = Vec::new();
        for topic in self.topics.values_mut().filter(|topic| !topic.is_paused(now)) {
            let limit = Share::all(self.bounds).cap(self.flying.less(topic.flying));
            let mut held_back = VecDeque::new();
            while launched.len() < most
                && topic.flying.is_below(limit)
                && let Some(slot) = topic.ready.pop_front()
            {
                let held = self.slots[slot].as_mut().expect("what is ready is held");
                if may(held.entry.shard) {
                    (held.state, held.launched) = (State::Flying, now);
                    self.flying.add(held.entry.size);
                    topic.flying.add(held.entry.size);
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

    /// As [`back`](Self::back), for the brokers or the way to them.
    pub fn troubled(&mut self, slot: Slot, owned: bool) {
        self.slots[slot].as_mut().expect("what flew is held").troubled = true;
        self.back(slot, owned);
    }

    /// Kafka has it: the next of its lane may leave.
    pub fn confirmed(&mut self, slot: Slot, now: Duration) {
        self.land(slot, State::Marking);
        let entry = &self.slots[slot].as_ref().expect("it flew").entry;
        let (lane, name) = (lane(entry), Arc::clone(&entry.topic));
        let size = entry.size;
        let next = lane.and_then(|lane| self.leave(&lane, slot, size));
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
        self.flying.sub(held.entry.size);
        self.topics.get_mut(&held.entry.topic).expect("a record's topic is known").flying.sub(held.entry.size);
    }

    /// The database heard that it was sent.
    pub fn marked(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|slot| self.remove(*slot));
    }

    /// The database heard that it was refused. What waits behind it is forgotten with it, and read
    /// again when its turn has come.
    pub fn recorded(&mut self, slot: Slot) {
        let lane = lane(self.get(slot));
        let all =
            lane.and_then(|lane| self.lanes.remove(&lane)).map_or_else(|| VecDeque::from([slot]), |queue| queue.slots);
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

    /// Whether any topic is in trouble that has something here, paused or tried again.
    pub fn is_troubled(&self) -> bool {
        self.topics.values().any(|topic| topic.troubles > 0 && topic.held.rows > 0)
    }

    /// When the first pause of a topic ends that has something to send.
    pub fn resumes(&self, now: Duration) -> Option<Duration> {
        let paused = self.topics.values().filter(|topic| topic.is_paused(now) && !topic.ready.is_empty());
        paused.filter_map(|topic| topic.paused_until).min()
    }

    /// Forgets what waits of these shards. What is on its way keeps its place until its report.
    pub fn lose(&mut self, shards: &[i16]) {
        let waits = |held: &Held<R>| held.state == State::Queued && shards.contains(&held.entry.shard);
        let gone = (0..self.slots.len()).filter(|slot| self.slots[*slot].as_ref().is_some_and(waits)).collect();
        self.forget(&gone);
    }

    /// Takes a record out of everything.
    fn remove(&mut self, slot: Slot) {
        let held = self.slots[slot].take().expect("it is removed once");
        self.free.push(slot);
        self.ids.remove(&held.entry.id);
        self.bytes -= held.entry.size;
        let next = match lane(&held.entry) {
            Some(lane) if held.state != State::Marking => self.leave(&lane, slot, held.entry.size),
            _ => None,
        };
        let topic = self.topics.get_mut(&held.entry.topic).expect("a record's topic is known");
        topic.held.sub(held.entry.size);
        if held.state == State::Queued {
            topic.ready.retain(|ready| *ready != slot);
        }
        topic.ready.extend(next);
    }

    /// Takes a slot out of its lane; the one that leads it now, if it did not before.
    fn leave(&mut self, lane: &Lane, slot: Slot, size: usize) -> Option<Slot> {
        let queue = self.lanes.get_mut(lane)?;
        queue.bytes -= size;
        let led = queue.slots.front() == Some(&slot);
        if led {
            queue.slots.pop_front();
        } else {
            queue.slots.retain(|other| *other != slot);
        }
        let next = queue.slots.front().copied();
        if next.is_none() {
            self.lanes.remove(lane);
        }
        next.filter(|_| led)
    }
}

fn lane<R>(entry: &Entry<R>) -> Option<Lane> {
    entry.lane.as_ref().map(|lane| (Arc::clone(&entry.topic), Arc::clone(lane)))
}
