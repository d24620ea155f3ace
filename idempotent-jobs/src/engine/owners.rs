//! Who owns a partition, and what its earlier owners died of.
//!
//! Invariant: before the first message of an assignment is read or run, a row says whose it is, and it is
//! deleted only by that owner, when it lets go. So whoever is assigned a partition and finds another's row knows
//! that this owner died, or sleeps. An owner that died says nothing of any message: only when several
//! died in a row, of what may be one message, are its messages *suspect*, and run alone, each noted before it is read.
//! Only who dies in a message that was noted so accuses it (`attempts`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::desk::Desk;
use super::gate::Rank;
use super::lanes::{Group, Start, Task};
use super::{Engine, Progress};
use crate::kafka::Partition;
use crate::message::{Coordinates, Message};
use crate::store::{Attempted, Store, StoreError, Taken, Taking};
use crate::telemetry;

/// Owners that died in a row, before messages are suspect. The first may have been killed by a person.
const SUSPECT_FROM: u32 = 2;

/// How long messages are suspect after their partition was assigned. A killer that is not met in this time kills once
/// more; then it is looked for twice as long, since it may lie behind many that are done, and behind one that is not. Once
/// a killer was found, the rest of the time is no longer than this.
const SUSPECT_FOR: Duration = Duration::from_secs(60);

/// Not more often than this is the time doubled: a process that is started again some minutes later is to be one of
/// the same row.
const DOUBLINGS: u32 = 2;

/// How long trouble of the database is waited for before it is asked again.
const REST: Duration = Duration::from_millis(500);

/// How long letting go may take at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Owners {
    /// What the names of this process's owners begin with.
    process: String,
    held: Mutex<Held>,
    /// One asks at a time, for all.
    asking: tokio::sync::Mutex<()>,
    /// Rung whenever one has its answer.
    told: Notify,
    /// Something is to be let go.
    left: Notify,
}

#[derive(Default)]
struct Held {
    /// By epoch.
    owned: HashMap<u64, Arc<Owned>>,
    leaving: Vec<Arc<Owned>>,
}

/// An assignment whose row is written.
#[derive(Debug)]
pub(super) struct Owned {
    pub owner: String,
    from: Coordinates,
    /// Its messages are suspect until then: all, since those in flight may lie at whatever offsets.
    suspect: Option<Instant>,
    /// When a message was found that kills.
    found: OnceLock<Instant>,
    /// By offset: every new message is looked for.
    attempts: HashMap<i64, Vec<Attempted>>,
}

impl Owned {
    fn new(start: &Start, owner: String, taken: Taken, now: Instant) -> Self {
        let more = taken.deaths.checked_sub(SUSPECT_FROM).map(|more| more.min(DOUBLINGS));
        let suspect = more.map(|more| now + SUSPECT_FOR * 2_u32.pow(more));
        let mut attempts: HashMap<i64, Vec<Attempted>> = HashMap::new();
        for attempted in taken.attempts {
            attempts.entry(attempted.offset).or_default().push(attempted);
        }
        Self { owner, from: start.from.clone(), suspect, found: OnceLock::new(), attempts }
    }

    /// Offsets of messages in which a process was struck down: to be run first, so that whoever strikes at anything
    /// mostly strikes at others.
    fn struck(&self) -> impl Iterator<Item = i64> {
        let is_struck = |its: &Vec<Attempted>| its.iter().any(|attempted| attempted.deaths > 0);
        self.attempts.iter().filter(move |(_, its)| is_struck(its)).map(|(offset, _)| *offset)
    }

    fn is_of(&self, partition: &Partition) -> bool {
        self.from.topic == partition.topic && self.from.partition == partition.number
    }

    fn has_row_of(&self, other: &Self) -> bool {
        self.from.topic == other.from.topic && self.from.partition == other.from.partition
    }

    fn is_suspect(&self, now: Instant) -> bool {
        let until = |until: Instant| self.found.get().map_or(until, |found| until.min(*found + SUSPECT_FOR));
        self.suspect.is_some_and(|suspect| now < until(suspect))
    }

    /// What is known of a message.
    fn of<'a>(&'a self, message: &'a Message) -> impl Iterator<Item = &'a Attempted> {
        let its = self.attempts.get(&message.coordinates.offset);
        its.into_iter().flatten().filter(|attempted| attempted.is(message))
    }
}

impl Owners {
    pub fn new() -> Self {
        let process = format!("{:032x}/", rand::random::<u128>());
        Self {
            process,
            held: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            told: Notify::new(),
            left: Notify::new(),
        }
    }

    /// What this process calls itself in an assignment.
    pub fn name(&self, epoch: u64) -> String {
        format!("{}{epoch}", self.process)
    }

    /// What the names of all its assignments begin with.
    pub fn process(&self) -> &str {
        &self.process
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The assignment a message came with, if its row is written.
    pub fn of(&self, epoch: u64) -> Option<Arc<Owned>> {
        self.held().owned.get(&epoch).cloned()
    }

    /// Whether all that is known of a message is that nothing is wrong with it.
    pub fn is_clear(&self, task: &Task<Progress>) -> bool {
        let Some(owned) = self.of(task.epoch()) else { return false };
        let offset = task.message.coordinates.offset;
        !owned.attempts.contains_key(&offset) && !owned.is_suspect(Instant::now())
    }

    /// These partitions are no longer this process's. One that began anew may still be owned in an earlier epoch.
    pub fn leave(&self, partitions: &[Partition]) {
        let mut held = self.held();
        let left = held.owned.extract_if(|_, owned| partitions.iter().any(|partition| owned.is_of(partition)));
        let left: Vec<_> = left.map(|(_, owned)| owned).collect();
        held.leaving.extend(left);
        drop(held);
        self.left.notify_one();
    }

    fn keep(&self, owned: Vec<(u64, Owned)>, current: &[u64]) {
        let mut held = self.held();
        // One that was followed by another without a word left its row to that.
        let old: Vec<_> = held.owned.extract_if(|epoch, _| !current.contains(epoch)).map(|(_, owned)| owned).collect();
        let left = old.into_iter().filter(|old| {
            let mut kept = held.owned.values().map(Arc::as_ref).chain(owned.iter().map(|(_, owned)| owned));
            !kept.any(|kept| kept.has_row_of(old))
        });
        let left: Vec<_> = left.collect();
        held.leaving.extend(left);
        for (epoch, owned) in owned {
            if current.contains(&epoch) {
                held.owned.insert(epoch, Arc::new(owned));
            } else {
                held.leaving.push(Arc::new(owned));
            }
        }
        drop(held);
        self.left.notify_one();
    }

    /// A message that kills was found: mostly the one that all was suspect for.
    pub fn found_killer(&self) {
        let now = Instant::now();
        // Only the first one's time counts: should there be more, the next process looks for them.
        self.held().owned.values().for_each(|owned| _ = owned.found.set(now));
    }

    fn lacks(&self, group: &Group<Progress>) -> bool {
        let held = self.held();
        group.tasks.iter().any(|task| !held.owned.contains_key(&task.epoch()))
    }
}

impl<S: Store> Engine<S> {
    /// Writes whose the messages' partitions are, and finds out what is known of these messages. `false`: nobody
    /// knows, and nothing may be read or run.
    pub(super) async fn take_over(&self, group: &mut Group<Progress>, desk: &mut Desk<S>) -> bool {
        if self.owners.lacks(group) {
            // It takes a connection of its own, and this worker's may be the last.
            desk.clear(self).await;
            if let Err(error) = self.be_told(group).await {
                tracing::warn!(%error, "who owned a partition before is not known yet: it waits");
                self.rest(REST).await;
                return false;
            }
        }
        self.recall(group);
        true
    }

    /// Asks, or waits for whoever does. Who waited goes on as soon as its own is known, and not in the order in
    /// which they waited: messages behind these would be far ahead otherwise.
    async fn be_told(&self, group: &Group<Progress>) -> Result<(), StoreError> {
        loop {
            let told = self.owners.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if !self.owners.lacks(group) {
                return Ok(());
            }
            if let Ok(asking) = self.owners.asking.try_lock() {
                let asked = self.ask().await;
                drop(asking);
                self.owners.told.notify_waiters();
                return asked;
            }
            told.await;
        }
    }

    /// Of every assignment that has a message and was not asked for.
    async fn ask(&self) -> Result<(), StoreError> {
        let mut starts = self.lanes().starts();
        {
            let held = self.owners.held();
            starts.retain(|start| !held.owned.contains_key(&start.epoch));
        }
        if starts.is_empty() {
            return Ok(());
        }
        let owners: Vec<String> = starts.iter().map(|start| self.owners.name(start.epoch)).collect();
        let takings: Vec<Taking<'_>> =
            starts.iter().zip(&owners).map(|(start, owner)| Taking { from: &start.from, owner }).collect();
        let taken = self.store.take_over(&self.group, self.owners.process(), &takings).await?;
        let asked = self.ask_graves(&starts).await;
        // The rows are there, whatever came of that: they are to be let go.
        let now = Instant::now();
        let owned = starts.iter().zip(owners).zip(taken).map(|((start, owner), taken)| {
            tell(start, &taken);
            (start.epoch, Owned::new(start, owner, taken, now))
        });
        let owned: Vec<(u64, Owned)> = owned.collect();
        // Not let go of, before it is known what there is to let go.
        let mut lanes = self.lanes();
        owned.iter().for_each(|(epoch, owned)| lanes.urge(*epoch, owned.struck()));
        self.owners.keep(owned, &lanes.epochs());
        asked
    }

    /// Asked for here too, so that those who wait have nothing left to ask for.
    async fn ask_graves(&self, starts: &[Start]) -> Result<(), StoreError> {
        for start in starts {
            let letters = self.store.unkeyed(&self.group, &start.from).await?;
            let current = self.lanes().epochs();
            self.graves.keep(start.epoch, letters, &current);
        }
        Ok(())
    }

    /// Enters what is known of messages that are tried for the first time here.
    fn recall(&self, group: &mut Group<Progress>) {
        let jobs = &self.classes.class(group.class).jobs;
        if jobs.is_empty() {
            return;
        }
        let now = Instant::now();
        for task in group.tasks.iter_mut().filter(|task| task.progress.is_new()) {
            task.progress.open(jobs);
            let Some(owned) = self.owners.of(task.epoch()) else { continue };
            for attempted in owned.of(&task.message) {
                let its = jobs.iter().find(|job| self.jobs[**job].spec().name == attempted.job);
                if let Some(job) = its {
                    task.progress.recall(*job, attempted, now);
                }
            }
        }
    }

    /// Whether one of these messages may kill the process.
    pub(super) fn is_suspect(&self, group: &Group<Progress>) -> bool {
        let now = Instant::now();
        let of_suspect = |task: &Task<Progress>| self.owners.of(task.epoch()).is_some_and(|it| it.is_suspect(now));
        group.tasks.iter().any(|task| task.progress.is_suspect() || of_suspect(task))
    }

    /// When they run, should they have to run alone.
    pub(super) fn rank(&self, group: &Group<Progress>) -> Rank {
        let behind = group.tasks.iter().filter_map(|task| {
            let owned = self.owners.of(task.epoch())?;
            Some(task.message.coordinates.offset.saturating_sub(owned.from.offset))
        });
        Rank { unstruck: !group.tasks.iter().any(|task| task.progress.is_struck()), behind: behind.min().unwrap_or(0) }
    }

    /// Lets go what was left, as it comes.
    async fn let_go_next(&self) {
        let leaving = self.owners.held().leaving.clone();
        if leaving.is_empty() {
            return self.owners.left.notified().await;
        }
        if let Err(error) = self.let_go(&leaving).await {
            tracing::debug!(%error, "that partitions were let go could not be written yet");
            // Also while the worker stops.
            tokio::time::sleep(REST).await;
        }
    }

    async fn let_go(&self, leaving: &[Arc<Owned>]) -> Result<(), StoreError> {
        let owned: Vec<Taking<'_>> =
            leaving.iter().map(|owned| Taking { from: &owned.from, owner: &owned.owner }).collect();
        self.store.let_go(&self.group, &owned).await?;
        self.owners.held().leaving.retain(|owned| !leaving.iter().any(|gone| Arc::ptr_eq(owned, gone)));
        Ok(())
    }

    /// At the end, when nothing runs any more. What cannot be written now makes the next owner believe that
    /// this one died, which accuses nobody.
    pub(crate) async fn let_go_all(&self) {
        let leaving = self.owners.held().leaving.clone();
        let written = async {
            if !leaving.is_empty() {
                self.let_go(&leaving).await?;
            }
            // One that took longer than the worker had.
            self.store.redrives_ended(self.owners.process()).await
        };
        match tokio::time::timeout(LAST_WORDS, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "that this worker ended in order could not be written"),
            Err(_) => tracing::warn!("that this worker ended in order could not be written in time"),
        }
    }
}

/// Works until it is dropped, when the consumer has given its partitions up: while a job still runs, their next owner is
/// not to take this one for dead.
pub(crate) async fn let_go<S: Store>(engine: Arc<Engine<S>>) {
    loop {
        engine.let_go_next().await;
    }
}

fn tell(start: &Start, taken: &Taken) {
    let accused = taken.attempts.iter().filter(|attempted| attempted.deaths > 0).count();
    if taken.deaths == 0 && accused == 0 {
        return;
    }
    let Coordinates { topic, partition, offset } = &start.from;
    metrics::counter!(telemetry::DEAD_OWNERS, "topic" => topic.to_string()).increment(1);
    let suspect = taken.deaths >= SUSPECT_FROM;
    tracing::warn!(
        %topic, partition, offset, deaths = taken.deaths, accused, suspect,
        "the last owner of this partition died: if that goes on, its messages run one by one to find the one it dies of"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(deaths: u32, now: Instant) -> Owned {
        let from = Coordinates { topic: "t".into(), partition: 0, offset: 100 };
        Owned::new(&Start { epoch: 1, from }, "me/1".into(), Taken { deaths, attempts: Vec::new() }, now)
    }

    fn held(owners: &Owners) -> (Vec<u64>, Vec<String>) {
        let held = owners.held();
        let mut epochs: Vec<u64> = held.owned.keys().copied().collect();
        epochs.sort_unstable();
        (epochs, held.leaving.iter().map(|owned| owned.owner.clone()).collect())
    }

    fn of(owner: &str) -> Owned {
        let from = Coordinates { topic: "t".into(), partition: 0, offset: 100 };
        Owned::new(&Start { epoch: 1, from }, owner.into(), Taken::default(), Instant::now())
    }

    #[test]
    fn a_partition_that_began_anew_is_let_go_as_it_was_owned() {
        let partition = Partition { topic: "t".into(), number: 0 };
        let owners = Owners::new();
        owners.keep(vec![(1, of("me/1"))], &[1]);
        owners.leave(&[partition]);
        assert_eq!(held(&owners), (vec![], vec!["me/1".to_owned()]), "no message came since it began anew");
        let owners = Owners::new();
        owners.keep(vec![(1, of("me/1"))], &[1]);
        owners.keep(vec![(2, of("me/2"))], &[2]);
        assert_eq!(held(&owners), (vec![2], vec![]), "its row is the later one's");
        owners.keep(vec![], &[3]);
        assert_eq!(held(&owners), (vec![], vec!["me/2".to_owned()]), "a row that nobody took over is let go");
    }

    #[test]
    fn one_death_makes_nothing_suspect() {
        let now = Instant::now();
        assert!(!owned(0, now).is_suspect(now));
        assert!(!owned(SUSPECT_FROM - 1, now).is_suspect(now));
        assert!(owned(SUSPECT_FROM, now).is_suspect(now));
    }

    #[test]
    fn suspicion_ends_with_its_time_which_grows_with_the_deaths() {
        let now = Instant::now();
        for (deaths, times) in [(0, 1), (1, 2), (2, 4), (100, 4)] {
            let owned = owned(SUSPECT_FROM + deaths, now);
            assert!(owned.is_suspect(now + SUSPECT_FOR * times - Duration::from_millis(1)));
            assert!(!owned.is_suspect(now + SUSPECT_FOR * times));
        }
    }

    #[test]
    fn once_a_killer_is_found_suspicion_ends_soon() {
        let (now, owners) = (Instant::now(), Owners::new());
        owners.keep(vec![(1, owned(SUSPECT_FROM + 9, now)), (2, owned(SUSPECT_FROM, now - SUSPECT_FOR))], &[1, 2]);
        owners.found_killer();
        let owned = |epoch| owners.of(epoch).expect("it is held");
        let soon = Instant::now() + SUSPECT_FOR;
        assert!(owned(1).is_suspect(soon - Duration::from_secs(5)) && !owned(1).is_suspect(soon));
        assert!(!owned(2).is_suspect(now), "it is no longer than it was");
    }
}
