//! Invariants: a lane hands out its messages in the order it took them, and none before those
//! it handed out earlier are settled or back; what a message did in an old epoch changes nothing
//! in a new one; an assignment past its bounds says so.
//!
//! Plain data: time is passed in, nothing waits here.

mod assignment;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use self::assignment::Assignment;
use super::offsets::{Arrival, Offsets};
use crate::kafka::{Partition, Position, Room};
use crate::message::{Coordinates, Message};

/// What may be kept before a partition is paused; it is resumed at half of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of all messages together, shared evenly by the assigned partitions.
    pub memory: usize,
    /// Messages of a partition from its first unsettled one on, settled ones among them: what a
    /// crash makes come again at most.
    pub span: usize,
}

/// Where a message queues, and which jobs it is for: messages of one class may be taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub lane: u64,
    pub class: usize,
}

/// The most messages of one look, and how many have to wait for one to be worth its trip.
pub(super) const LOOK: usize = 500;
pub(super) const LOOK_FROM: usize = 16;
/// Duplicates in a row that make the next messages suspect.
const STREAK: usize = 2;

/// A message on its way, with what its earlier attempts left.
#[derive(Debug)]
pub(crate) struct Task<P> {
    pub message: Arc<Message>,
    pub progress: P,
    partition: Partition,
    epoch: u64,
    lane: u64,
    class: usize,
}

impl<P> Task<P> {
    /// The assignment it came with.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether both are of one lane, and so in order.
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.lane, self.epoch) == (other.lane, other.epoch)
    }
}

/// Messages taken together: of one class, those of a lane side by side and in order.
#[derive(Debug)]
pub(crate) struct Group<P> {
    pub class: usize,
    pub tasks: Vec<Task<P>>,
    /// Only to find out which of them were seen before.
    pub looking: bool,
}

/// Where an assignment begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub epoch: u64,
    /// The first message that was read.
    pub from: Coordinates,
}

/// How a message comes back from a worker.
#[derive(Debug)]
pub(crate) enum End {
    /// Its offset may be committed.
    Settled,
    /// To the head of its lane.
    Back(Back),
    /// It stays unsettled and its partition stands still, so that nothing behind it runs.
    Halt,
}

/// What is to be known of a message that goes back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Back {
    /// Not before this instant.
    pub due: Option<Instant>,
    /// Not together with others.
    pub alone: bool,
    /// It was looked for and had not been seen.
    pub looked: bool,
}

/// A partition's watermark in the database is to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub partition: Partition,
    pub epoch: u64,
    pub from: i64,
    pub to: i64,
}

/// What is there to do.
#[derive(Debug)]
pub(crate) enum Next<P> {
    Group(Group<P>),
    /// Nothing before this instant.
    Until(Instant),
    /// Nothing until a message comes.
    Idle,
}

/// All lanes of the assigned partitions.
pub(crate) struct Lanes<P> {
    bounds: Bounds,
    epochs: u64,
    assignments: HashMap<Partition, Assignment<P>>,
    /// Every assigned partition; the next to be served is in front.
    turns: VecDeque<Partition>,
}

impl<P: Default> Lanes<P> {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, epochs: 0, assignments: HashMap::new(), turns: VecDeque::new() }
    }

    /// A new epoch of a partition; whatever an earlier one left is forgotten. Nothing of it is committed before
    /// it is known what the database says.
    pub fn assign(&mut self, partition: &Partition) {
        self.begin(partition, Offsets::default());
    }

    /// The same, and the database says that all below `recorded` is settled.
    pub fn assign_at(&mut self, partition: &Partition, recorded: i64) {
        self.begin(partition, Offsets::recorded_at(recorded));
    }

    /// The same, and Kafka does not know it: that is the first thing to commit.
    pub fn assign_uncommitted(&mut self, partition: &Partition, recorded: i64) {
        self.begin(partition, Offsets::uncommitted_at(recorded));
    }

    fn begin(&mut self, partition: &Partition, offsets: Offsets) {
        self.forget(partition);
        self.epochs += 1;
        self.assignments.insert(partition.clone(), Assignment::new(self.epochs, offsets));
        self.turns.push_back(partition.clone());
    }

    /// Takes a message. One of a partition that is not assigned is dropped, since its next owner
    /// reads it; a position that went back (a recreated topic, an offset reset) is a new epoch.
    pub fn push(&mut self, message: Message, place: Place) -> Room {
        let at = &message.coordinates;
        let partition = Partition { topic: at.topic.clone(), number: at.partition };
        let share = self.share();
        let Some(assignment) = self.assignments.get_mut(&partition).filter(|it| !it.closed) else { return Room::Open };
        if assignment.offsets.is_back(at.offset) {
            let offsets = assignment.offsets.begun_again();
            self.begin(&partition, offsets);
            return self.push(message, place);
        }
        let arrival = assignment.push(message, place);
        debug_assert_ne!(arrival, Arrival::Back, "what goes back begins a new epoch");
        assignment.full |= assignment.is_over(self.bounds, share);
        if assignment.full { Room::Full } else { Room::Open }
    }

    /// What each partition may keep.
    fn share(&self) -> usize {
        self.bounds.memory / self.assignments.len().max(1)
    }

    /// The next messages to run, for one of `workers`, of a class no more than its `limit`:
    /// partitions take turns, and in a partition its lanes. Few waiting messages are spread over
    /// the workers.
    pub fn take(&mut self, now: Instant, workers: usize, limit: impl Fn(usize) -> usize) -> Next<P> {
        let mut earliest: Option<Instant> = None;
        for assignment in self.assignments.values_mut() {
            if let Some(due) = assignment.wake(now) {
                earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
            }
        }
        let turn = self.turns.iter().position(|partition| self.assignments[partition].head().is_some());
        match turn {
            Some(turn) => Next::Group(self.take_from(turn, workers, limit)),
            None => earliest.map_or(Next::Idle, Next::Until),
        }
    }

    /// Whether another worker would find something, or has an instant to wait for.
    pub fn has_more(&self) -> bool {
        self.assignments.values().any(Assignment::has_more)
    }

    fn take_from(&mut self, turn: usize, workers: usize, limit: impl Fn(usize) -> usize) -> Group<P> {
        let first = &self.assignments[&self.turns[turn]];
        let (class, together) = first.head().expect("the turn is one of a partition with a head");
        let looking = first.is_to_be_looked_at();
        let waiting: usize = self.assignments.values().map(|it| it.waiting).sum();
        let limit = match limit(class) {
            _ if !together => 1,
            _ if looking => LOOK,
            limit => limit.min(waiting.div_ceil(workers.max(1))).max(1),
        };
        let mut tasks = Vec::with_capacity(limit.min(waiting));
        let (mut place, left) = (turn, self.turns.len() - turn);
        for _ in 0..left {
            let partition = self.turns[place].clone();
            let assignment = self.assignments.get_mut(&partition).expect("a partition that has a turn is assigned");
            let (epoch, before) = (assignment.epoch, tasks.len());
            let give = |lane, waiting| {
                let assignment::Waiting { message, progress, class, .. } = waiting;
                tasks.push(Task { message, progress, partition: partition.clone(), epoch, lane, class });
            };
            if together {
                assignment.take(class, limit - before, looking, give);
            } else {
                assignment.take_one(give);
            }
            // Only one that was served waits for its next turn behind the others.
            if tasks.len() > before {
                self.turns.remove(place);
                self.turns.push_back(partition);
            } else {
                place += 1;
            }
            if looking || tasks.len() == limit {
                break;
            }
        }
        Group { class, tasks, looking }
    }

    /// Whether the message may be started: its epoch goes on, and its partition is not given up.
    pub fn may_start(&self, task: &Task<P>) -> bool {
        let current = self.assignments.get(&task.partition).filter(|it| it.epoch == task.epoch);
        current.is_some_and(|assignment| !assignment.closed)
    }

    /// The first offset of the message's assignment that is not settled, if it goes on.
    pub fn first(&self, task: &Task<P>) -> Option<i64> {
        self.assignments.get(&task.partition).filter(|it| it.epoch == task.epoch)?.offsets.first()
    }

    /// Where the assignments that have a message begin.
    pub fn starts(&self) -> Vec<Start> {
        let start = |(partition, assignment): (&Partition, &Assignment<P>)| {
            let (topic, offset) = (Arc::clone(&partition.topic), assignment.offsets.start()?);
            Some(Start { epoch: assignment.epoch, from: Coordinates { topic, partition: partition.number, offset } })
        };
        self.assignments.iter().filter_map(start).collect()
    }

    /// Lets the messages of an assignment at these offsets go before its others, as far as the order of their lanes lets
    /// them.
    pub fn urge(&mut self, epoch: u64, offsets: impl IntoIterator<Item = i64>) {
        if let Some(assignment) = self.assignments.values_mut().find(|it| it.epoch == epoch) {
            assignment.urge(offsets);
        }
    }

    /// The assignments that go on.
    pub fn epochs(&self) -> Vec<u64> {
        self.assignments.values().map(|assignment| assignment.epoch).collect()
    }

    /// Whether messages can be taken.
    pub fn has_ready(&self) -> bool {
        self.assignments.values().any(|it| it.waiting > 0)
    }

    /// Takes messages back from a worker, all that it has of their lanes. Those of an old epoch
    /// change nothing.
    pub fn conclude(&mut self, ends: Vec<(Task<P>, End)>) {
        let mut lanes: Vec<(Partition, u64, u64)> = Vec::new();
        // From the last to the first, since each goes back before all others of its lane.
        for (task, end) in ends.into_iter().rev() {
            let Task { message, progress, partition, epoch, lane, class } = task;
            let current = self.assignments.get_mut(&partition).filter(|it| it.epoch == epoch);
            let Some(assignment) = current else { continue };
            match end {
                End::Settled => assignment.settle(&message),
                End::Back(back) => assignment.give_back(lane, message, progress, class, back),
                End::Halt => {
                    assignment.out -= 1;
                    assignment.close();
                }
            }
            if lanes.last().is_none_or(|last| (last.1, last.2) != (epoch, lane)) {
                lanes.push((partition, epoch, lane));
            }
        }
        // In the order in which they were taken, so that turns stay fair.
        for (partition, _, lane) in lanes.iter().rev() {
            let assignment = self.assignments.get_mut(partition).expect("its epoch was current just now");
            assignment.release(*lane);
        }
    }

    /// Notes of a message whether it had been seen before.
    pub fn note(&mut self, task: &Task<P>, duplicate: bool) {
        if let Some(assignment) = self.current(task) {
            assignment.note(duplicate);
        }
    }

    /// A look at this partition's messages found none that had been seen before.
    pub fn trust(&mut self, task: &Task<P>) {
        if let Some(assignment) = self.current(task) {
            assignment.trust();
        }
    }

    fn current(&mut self, task: &Task<P>) -> Option<&mut Assignment<P>> {
        self.assignments.get_mut(&task.partition).filter(|it| it.epoch == task.epoch)
    }

    /// Drops what is queued and not started: it counts as not done.
    pub fn drain(&mut self, partition: &Partition) {
        if let Some(assignment) = self.assignments.get_mut(partition) {
            assignment.close();
        }
    }

    /// Ends the epoch of a partition.
    pub fn forget(&mut self, partition: &Partition) {
        if self.assignments.remove(partition).is_some() {
            self.turns.retain(|turn| turn != partition);
        }
    }

    /// How many messages of these partitions are with workers.
    pub fn running(&self, partitions: &[Partition]) -> usize {
        partitions.iter().filter_map(|partition| self.assignments.get(partition)).map(|it| it.out).sum()
    }

    /// Every assigned partition.
    pub fn assigned(&self) -> Vec<Partition> {
        self.turns.iter().cloned().collect()
    }

    /// Partitions that were full and are down to half of their bounds.
    pub fn relieved(&mut self) -> Vec<Partition> {
        let (bounds, share) = (self.bounds, self.share());
        let mut relieved = Vec::new();
        for (partition, assignment) in &mut self.assignments {
            if assignment.full && !assignment.closed && assignment.is_relieved(bounds, share) {
                assignment.full = false;
                assignment.told = false;
                relieved.push(partition.clone());
            }
        }
        relieved
    }

    /// The first unsettled message of each partition that is full because of what is settled
    /// behind it; each is told once until its partition is relieved.
    pub fn held_up(&mut self) -> Vec<Position> {
        let bounds = self.bounds;
        let held = self.assignments.iter_mut().filter(|(_, it)| !it.told && it.is_held_up(bounds));
        held.filter_map(|(partition, it)| {
            it.told = true;
            Some(Position { partition: partition.clone(), offset: it.offsets.first()? })
        })
        .collect()
    }

    /// The epoch of a partition that goes on.
    pub fn epoch(&self, partition: &Partition) -> Option<u64> {
        self.assignments.get(partition).map(|assignment| assignment.epoch)
    }

    /// What the database is to say of each partition.
    pub fn to_record(&self) -> Vec<Step> {
        let step = |(partition, assignment): (&Partition, &Assignment<P>)| {
            let (from, to) = assignment.offsets.to_record()?;
            Some(Step { partition: partition.clone(), epoch: assignment.epoch, from, to })
        };
        self.assignments.iter().filter_map(step).collect()
    }

    /// What the database says of each partition, in its epoch.
    pub fn recorded(&self) -> Vec<(Partition, u64, i64)> {
        let recorded =
            |(partition, it): (&Partition, &Assignment<P>)| Some((partition.clone(), it.epoch, it.offsets.recorded()?));
        self.assignments.iter().filter_map(recorded).collect()
    }

    /// The database says it now.
    pub fn record(&mut self, step: &Step) {
        if let Some(assignment) = self.assignments.get_mut(&step.partition).filter(|it| it.epoch == step.epoch) {
            assignment.offsets.record(step.to);
        }
    }

    /// Partitions of which something may have been done that the database does not say yet. Of a message that is not
    /// settled some of its jobs may be done.
    pub fn ahead(&self) -> Vec<Partition> {
        let ahead = self.assignments.iter().filter(|(_, it)| it.out > 0 || it.offsets.is_ahead());
        ahead.map(|(partition, _)| partition.clone()).collect()
    }

    /// The positions of these partitions that are to be committed.
    pub fn to_commit(&self, partitions: &[Partition]) -> Vec<Position> {
        partitions
            .iter()
            .filter_map(|partition| {
                let offset = self.assignments.get(partition)?.offsets.to_commit()?;
                Some(Position { partition: partition.clone(), offset })
            })
            .collect()
    }

    /// A position was committed.
    pub fn confirm(&mut self, position: &Position) {
        if let Some(assignment) = self.assignments.get_mut(&position.partition) {
            assignment.offsets.confirm(position.offset);
        }
    }
}

#[cfg(test)]
mod tests;
