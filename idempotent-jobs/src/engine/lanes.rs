//! Invariants: a lane hands out its messages in the order it took them, one at a time; what a
//! message did in an old epoch changes nothing in a new one; a lane past its bounds says so.
//!
//! A lane is a partition so far. Plain data: time is passed in, nothing waits here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::offsets::{Arrival, Offsets};
use crate::kafka::{Partition, Position, Room};
use crate::message::Message;

/// What a lane may hold before its partition is paused; it is resumed at half of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub messages: usize,
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { messages: 1_000, bytes: 4 << 20 }
    }
}

/// A message on its way, with what its earlier attempts left.
#[derive(Debug)]
pub(crate) struct Task<P> {
    pub message: Arc<Message>,
    pub progress: P,
    partition: Partition,
    epoch: u64,
}

/// What is there to do.
#[derive(Debug)]
pub(crate) enum Next<P> {
    Task(Task<P>),
    /// Nothing before this instant.
    Until(Instant),
    /// Nothing until a message comes.
    Idle,
}

struct Lane<P> {
    epoch: u64,
    queue: VecDeque<(Arc<Message>, P)>,
    bytes: usize,
    running: bool,
    not_before: Option<Instant>,
    full: bool,
    /// Nothing more is taken in or handed out in this epoch.
    closed: bool,
    offsets: Offsets,
}

impl<P> Lane<P> {
    /// What is queued and not started counts as not done, and nothing more is started.
    fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
    }
}

/// All lanes of the assigned partitions.
pub(crate) struct Lanes<P> {
    bounds: Bounds,
    epochs: u64,
    lanes: HashMap<Partition, Lane<P>>,
    /// Every assigned partition; the next to be served is in front.
    turns: VecDeque<Partition>,
}

impl<P: Default> Lanes<P> {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, epochs: 0, lanes: HashMap::new(), turns: VecDeque::new() }
    }

    /// A new epoch of a partition; whatever an earlier one left is forgotten.
    pub fn assign(&mut self, partition: &Partition) {
        self.forget(partition);
        self.epochs += 1;
        let lane = Lane {
            epoch: self.epochs,
            queue: VecDeque::new(),
            bytes: 0,
            running: false,
            not_before: None,
            full: false,
            closed: false,
            offsets: Offsets::default(),
        };
        self.lanes.insert(partition.clone(), lane);
        self.turns.push_back(partition.clone());
    }

    /// Takes a message. One of a partition that is not assigned is dropped, since its next owner
    /// reads it; a position that went back (a recreated topic, an offset reset) is a new epoch.
    pub fn push(&mut self, message: Message) -> Room {
        let at = &message.coordinates;
        let partition = Partition { topic: at.topic.clone(), number: at.partition };
        let Some(lane) = self.lanes.get_mut(&partition).filter(|lane| !lane.closed) else { return Room::Open };
        match lane.offsets.accept(at.offset) {
            Arrival::New => {
                lane.bytes += message.size();
                lane.queue.push_back((Arc::new(message), P::default()));
            }
            Arrival::Known => {}
            Arrival::Back => {
                self.assign(&partition);
                return self.push(message);
            }
        }
        lane.full |= lane.queue.len() >= self.bounds.messages || lane.bytes >= self.bounds.bytes;
        if lane.full { Room::Full } else { Room::Open }
    }

    /// The next message to run: partitions take turns.
    pub fn take(&mut self, now: Instant) -> Next<P> {
        let mut earliest: Option<Instant> = None;
        for turn in 0..self.turns.len() {
            let lane = self.lanes.get_mut(&self.turns[turn]).expect("a partition that has a turn has a lane");
            if lane.running || lane.closed || lane.queue.is_empty() {
                continue;
            }
            if let Some(due) = lane.not_before.filter(|due| *due > now) {
                earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
                continue;
            }
            let (message, progress) = lane.queue.pop_front().expect("the queue was seen not to be empty");
            lane.running = true;
            lane.not_before = None;
            let epoch = lane.epoch;
            let partition = self.turns.remove(turn).expect("the turn is within the queue");
            self.turns.push_back(partition.clone());
            return Next::Task(Task { message, progress, partition, epoch });
        }
        earliest.map_or(Next::Idle, Next::Until)
    }

    /// The message is settled: its offset may be committed. False when its epoch is over.
    pub fn settle(&mut self, task: &Task<P>) -> bool {
        let Some(lane) = self.current(task) else { return false };
        lane.running = false;
        lane.bytes = lane.bytes.saturating_sub(task.message.size());
        lane.offsets.settle(task.message.coordinates.offset);
        true
    }

    /// The message goes back to the head of its lane and waits. False when its epoch is over.
    pub fn retry(&mut self, task: Task<P>, not_before: Instant) -> bool {
        let Some(lane) = self.current(&task) else { return false };
        lane.running = false;
        lane.not_before = Some(not_before);
        if !lane.closed {
            lane.queue.push_front((task.message, task.progress));
        }
        true
    }

    /// The message stays unsettled and its lane stands still, so that nothing behind it runs.
    /// False when its epoch is over.
    pub fn halt(&mut self, task: &Task<P>) -> bool {
        let Some(lane) = self.current(task) else { return false };
        lane.running = false;
        lane.close();
        true
    }

    fn current(&mut self, task: &Task<P>) -> Option<&mut Lane<P>> {
        self.lanes.get_mut(&task.partition).filter(|lane| lane.epoch == task.epoch)
    }

    /// Drops what is queued and not started: it counts as not done.
    pub fn drain(&mut self, partition: &Partition) {
        if let Some(lane) = self.lanes.get_mut(partition) {
            lane.close();
        }
    }

    /// Ends the epoch of a partition.
    pub fn forget(&mut self, partition: &Partition) {
        if self.lanes.remove(partition).is_some() {
            self.turns.retain(|turn| turn != partition);
        }
    }

    /// How many messages of these partitions run.
    pub fn running(&self, partitions: &[Partition]) -> usize {
        partitions.iter().filter(|partition| self.lanes.get(partition).is_some_and(|lane| lane.running)).count()
    }

    /// Every assigned partition.
    pub fn assigned(&self) -> Vec<Partition> {
        self.turns.iter().cloned().collect()
    }

    /// Partitions that were full and are down to half of their bounds.
    pub fn relieved(&mut self) -> Vec<Partition> {
        let Bounds { messages, bytes } = self.bounds;
        let mut relieved = Vec::new();
        for (partition, lane) in &mut self.lanes {
            if lane.full && !lane.closed && lane.queue.len() <= messages / 2 && lane.bytes <= bytes / 2 {
                lane.full = false;
                relieved.push(partition.clone());
            }
        }
        relieved
    }

    /// The positions of these partitions that are to be committed.
    pub fn to_commit(&self, partitions: &[Partition]) -> Vec<Position> {
        partitions
            .iter()
            .filter_map(|partition| {
                let offset = self.lanes.get(partition)?.offsets.to_commit()?;
                Some(Position { partition: partition.clone(), offset })
            })
            .collect()
    }

    /// A position was committed.
    pub fn confirm(&mut self, position: &Position) {
        if let Some(lane) = self.lanes.get_mut(&position.partition) {
            lane.offsets.confirm(position.offset);
        }
    }
}

#[cfg(test)]
mod tests;
