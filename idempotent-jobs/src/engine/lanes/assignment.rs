//! One assignment of a partition: its epoch, its lanes, and what of it is settled.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::{Back, Bounds, LOOK, LOOK_FROM, Place, STREAK};
use crate::engine::offsets::{Arrival, Offsets};
use crate::message::Message;

/// What a message and the rest of its keeping take beside its own bytes, roughly: its lane, its
/// place in the queue, its offset.
const KEEPING: usize = 256;

/// A message that waits in its lane.
pub(super) struct Waiting<P> {
    pub(super) message: Arc<Message>,
    pub(super) progress: P,
    pub(super) class: usize,
    due: Option<Instant>,
    alone: bool,
    looked: bool,
}

/// The messages of one lane, in the order of the log.
struct Lane<P> {
    queue: VecDeque<Waiting<P>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its head can be taken.
    Ready,
    /// Its head waits for its instant.
    Resting,
    /// Some are with a worker, which gives them back to the front or settles them.
    Out,
}

impl<P> Lane<P> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), state: State::Ready }
    }
}

/// See the module.
pub(super) struct Assignment<P> {
    pub(super) epoch: u64,
    pub(super) offsets: Offsets,
    /// Nothing more is taken in or handed out in this epoch.
    pub(super) closed: bool,
    /// Full since it was last relieved.
    pub(super) full: bool,
    /// That it is held up by one message was told.
    pub(super) told: bool,
    /// How many messages are with workers.
    pub(super) out: usize,
    lanes: HashMap<u64, Lane<P>>,
    /// Lanes whose head can be taken, the next to be served in front.
    ready: VecDeque<u64>,
    /// Offsets of messages that go before others once they are the heads of their lanes.
    urgent: BTreeSet<i64>,
    /// Lanes whose head waits for its instant.
    resting: BTreeSet<(Instant, u64)>,
    /// Messages in lanes.
    queued: usize,
    /// Those in lanes that are ready.
    pub(super) waiting: usize,
    bytes: usize,
    /// Whether most of what comes may have been seen before: so it is after a crash.
    suspect: bool,
    /// Duplicates in a row.
    streak: usize,
}

impl<P: Default> Assignment<P> {
    pub(super) fn new(epoch: u64, offsets: Offsets) -> Self {
        Self {
            epoch,
            offsets,
            closed: false,
            full: false,
            told: false,
            out: 0,
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            urgent: BTreeSet::new(),
            resting: BTreeSet::new(),
            queued: 0,
            waiting: 0,
            bytes: 0,
            suspect: true,
            streak: 0,
        }
    }

    /// Takes a message to the end of its lane, unless it is there already.
    pub(super) fn push(&mut self, message: Message, place: Place) -> Arrival {
        let arrival = self.offsets.accept(message.coordinates.offset);
        if arrival == Arrival::New {
            self.bytes += cost(&message);
            self.queued += 1;
            let urgent = self.urgent.contains(&message.coordinates.offset);
            let lane = self.lanes.entry(place.lane).or_insert_with(|| {
                if urgent {
                    self.ready.push_front(place.lane)
                } else {
                    self.ready.push_back(place.lane)
                }
                Lane::new()
            });
            self.waiting += usize::from(lane.state == State::Ready);
            lane.queue.push_back(Waiting {
                message: Arc::new(message),
                progress: P::default(),
                class: place.class,
                due: None,
                alone: false,
                looked: false,
            });
        }
        arrival
    }

    /// Makes lanes ready whose head has rested enough; the next instant at which another has.
    pub(super) fn wake(&mut self, now: Instant) -> Option<Instant> {
        while let Some((due, lane)) = self.resting.first().copied() {
            if due > now {
                return Some(due);
            }
            self.resting.pop_first();
            self.make_ready(lane);
        }
        None
    }

    fn make_ready(&mut self, id: u64) {
        let lane = self.lanes.get_mut(&id).expect("a lane that has messages is there");
        lane.state = State::Ready;
        self.waiting += lane.queue.len();
        let head = lane.queue.front().map(|head| head.message.coordinates.offset);
        if head.is_some_and(|offset| self.urgent.contains(&offset)) {
            self.ready.push_front(id);
        } else {
            self.ready.push_back(id);
        }
    }

    /// Lets the messages at these offsets go before others, as far as the order of their lanes lets them.
    pub(super) fn urge(&mut self, offsets: impl IntoIterator<Item = i64>) {
        self.urgent.extend(offsets);
        if self.urgent.is_empty() {
            return;
        }
        let (lanes, urgent) = (&self.lanes, &self.urgent);
        let is_urgent = |id: &u64| {
            let head = lanes.get(id).and_then(|lane| lane.queue.front());
            head.is_some_and(|head| urgent.contains(&head.message.coordinates.offset))
        };
        let (first, others): (VecDeque<u64>, VecDeque<u64>) = self.ready.drain(..).partition(is_urgent);
        self.ready = first;
        self.ready.extend(others);
    }

    /// Whether a lane is ready, or rests.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty() || !self.resting.is_empty()
    }

    /// The class of the message that is next, and whether it may be taken with others.
    pub(super) fn head(&self) -> Option<(usize, bool)> {
        if self.closed {
            return None;
        }
        let head = self.lanes[self.ready.front()?].queue.front().expect("a lane that is ready has a head");
        Some((head.class, !head.alone))
    }

    /// Whether to look first which of the next messages were seen before.
    pub(super) fn is_to_be_looked_at(&self) -> bool {
        self.suspect && self.queued >= LOOK_FROM && self.has_unlooked_head()
    }

    fn has_unlooked_head(&self) -> bool {
        let unlooked = |lane| self.lanes[lane].queue.front().is_some_and(|head| !head.looked && !head.alone);
        self.ready.front().is_some_and(unlooked)
    }

    /// Takes up to `limit` messages of `class` that may be together from the lanes in turn, each
    /// lane's in order.
    pub(super) fn take(&mut self, class: usize, limit: usize, looking: bool, mut give: impl FnMut(u64, Waiting<P>)) {
        let mut left = limit;
        while left > 0 && self.head() == Some((class, true)) && (!looking || self.has_unlooked_head()) {
            left -= self.take_lane(left, &mut give, |head| {
                head.class == class && !head.alone && head.due.is_none() && !(looking && head.looked)
            });
        }
    }

    /// Takes the next message by itself.
    pub(super) fn take_one(&mut self, mut give: impl FnMut(u64, Waiting<P>)) {
        self.take_lane(1, &mut give, |_| false);
    }

    /// Takes the head of the next lane, and of what is behind it what `fits`; how many.
    fn take_lane(
        &mut self,
        most: usize,
        give: &mut impl FnMut(u64, Waiting<P>),
        fits: impl Fn(&Waiting<P>) -> bool,
    ) -> usize {
        let Some(id) = self.ready.pop_front() else { return 0 };
        let lane = self.lanes.get_mut(&id).expect("a lane that is ready is there");
        lane.state = State::Out;
        self.waiting -= lane.queue.len();
        let mut taken = 0;
        while taken < most && lane.queue.front().is_some_and(|head| taken == 0 || fits(head)) {
            let waiting = lane.queue.pop_front().expect("the head was seen");
            taken += 1;
            give(id, waiting);
        }
        self.queued -= taken;
        self.out += taken;
        taken
    }

    /// A message that was out is settled.
    pub(super) fn settle(&mut self, message: &Message) {
        self.out -= 1;
        self.bytes = self.bytes.saturating_sub(cost(message));
        self.urgent.remove(&message.coordinates.offset);
        self.offsets.settle(message.coordinates.offset);
    }

    /// A message that was out goes back before all others of its lane.
    pub(super) fn give_back(&mut self, lane: u64, message: Arc<Message>, progress: P, class: usize, back: Back) {
        self.out -= 1;
        if self.closed {
            return;
        }
        self.queued += 1;
        let Back { due, alone, looked } = back;
        if due.is_some() {
            // It had its turn, and was done with it.
            self.urgent.remove(&message.coordinates.offset);
        }
        let lane = self.lanes.get_mut(&lane).expect("a lane is kept while messages of it are out");
        lane.queue.push_front(Waiting { message, progress, class, due, alone, looked });
    }

    /// All messages of the lane that were out are settled or back.
    pub(super) fn release(&mut self, id: u64) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        match lane.queue.front() {
            None => _ = self.lanes.remove(&id),
            Some(Waiting { due: Some(due), .. }) => {
                lane.state = State::Resting;
                self.resting.insert((*due, id));
            }
            Some(_) => self.make_ready(id),
        }
    }

    /// What is queued and not started counts as not done, and nothing more is started.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.queued = 0;
        self.waiting = 0;
        self.lanes.clear();
        self.ready.clear();
        self.resting.clear();
    }

    /// Notes whether a message had been seen before.
    pub(super) fn note(&mut self, duplicate: bool) {
        self.streak = if duplicate { self.streak + 1 } else { 0 };
        self.suspect |= self.streak >= STREAK;
    }

    /// A look found nothing that was seen before.
    pub(super) fn trust(&mut self) {
        self.suspect = false;
        self.streak = 0;
    }

    /// Whether more is kept, or lies behind an unsettled message, than the bounds allow.
    pub(super) fn is_over(&self, bounds: Bounds, share: usize) -> bool {
        self.bytes >= share || self.offsets.span() >= bounds.span
    }

    /// Whether much is settled behind a message that is not.
    pub(super) fn is_held_up(&self, bounds: Bounds) -> bool {
        let span = self.offsets.span();
        self.full && span >= bounds.span && span - self.queued - self.out >= bounds.span / 2
    }

    /// Whether it is down to half of the bounds.
    pub(super) fn is_relieved(&self, bounds: Bounds, share: usize) -> bool {
        self.bytes <= share / 2 && self.offsets.span() <= bounds.span / 2
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What a message is charged with.
pub(super) fn cost(message: &Message) -> usize {
    message.size() + KEEPING
}

const _: () = assert!(LOOK >= LOOK_FROM, "a look takes as many as it needs to begin");
