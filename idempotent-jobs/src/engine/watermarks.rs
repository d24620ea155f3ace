//! Keeps the watermarks of the database ahead of the offsets committed to Kafka.
//!
//! Invariants: a position is handed out for commit only after the database said that it has it; and a database
//! that may not be the one in which the work was done is told nothing before it was asked what it knows. So
//! when its connection had to be opened anew, or its row is not as high as it was left, what is done of the
//! partition and not recorded is in doubt: it is forgotten here and read again, and the claims decide.
//!
//! The consumer's thread never waits for the database but where it gives partitions up. It leaves what it
//! wants, rings, and comes back; one task does the rest.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval_at};

use super::Engine;
use super::history::{self, Decision, Finding, OnMissingKeys};
use super::lanes::Step;
use super::probe::Point;
use crate::health::Notice;
use crate::kafka::{Facts, Partition, Start};
use crate::message::Coordinates;
use crate::store::{Advance, Advanced, Known, Revision, Store, StoreError, Watermark};
use crate::telemetry;

/// How long trouble of the database is waited for before it is asked again.
const REST: Duration = Duration::from_millis(500);
/// Between two looks whether the database still has what it was given: history can be lost while nothing is to do.
const LOOK: Duration = Duration::from_secs(5);
/// Between two lines about one trouble.
const SAID: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Watermarks {
    missing_keys: OnMissingKeys,
    bell: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nobody answers any more.
    gone: bool,
    /// What is settled is to be recorded.
    due: bool,
    /// Who waits until it was tried.
    waiting: Vec<Sender<()>>,
    /// What is asked of partitions, in their epochs.
    asked: HashMap<Partition, (u64, Facts)>,
    answered: HashMap<Partition, (u64, Facts, Answer)>,
    doubted: Vec<Partition>,
    /// The topics' ids, as the rows have them.
    ids: HashMap<Partition, Option<String>>,
    /// Of the database's connection.
    life: Option<u64>,
    /// What the database has is to be looked at soon.
    stock: bool,
    said: Option<Instant>,
}

enum Answer {
    Begin { start: Start, recorded: i64, is_committed: bool },
    Refused(String),
}

impl Watermarks {
    pub fn new(missing_keys: OnMissingKeys) -> Self {
        Self { missing_keys, bell: Notify::new(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Partitions whose position is in doubt since this was last asked.
    pub fn doubted(&self) -> Vec<Partition> {
        std::mem::take(&mut self.state().doubted)
    }

    /// What is settled is to be recorded.
    pub fn ring(&self) {
        self.state().due = true;
        self.bell.notify_one();
    }

    /// The same, and a word when it was tried; the end of the channel says that nobody tries any more.
    pub fn ring_and_wait(&self) -> Receiver<()> {
        let (tried, answer) = channel();
        let mut state = self.state();
        if !state.gone {
            state.due = true;
            state.waiting.push(tried);
        }
        self.bell.notify_one();
        answer
    }

    fn takes_stock(&self) -> bool {
        std::mem::take(&mut self.state().stock)
    }

    /// One line now and then about a database that does not answer.
    fn say(&self, error: &StoreError, what: &str) {
        let now = Instant::now();
        let mut state = self.state();
        if state.said.is_none_or(|said| now - said >= SAID) {
            state.said = Some(now);
            tracing::warn!(%error, "{what} (tried again; not said again for {} s)", SAID.as_secs());
        }
    }
}

/// Whoever waits when the task ends is told.
struct Gone<'a>(&'a Watermarks);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.gone = true;
        state.waiting.clear();
    }
}

/// Records watermarks and answers the consumer's thread, until it is dropped.
pub(crate) async fn watch<S: Store>(engine: Arc<Engine<S>>) {
    let _gone = Gone(&engine.watermarks);
    let mut looks = interval_at(tokio::time::Instant::now() + LOOK, LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let look = tokio::select! {
            () = engine.watermarks.bell.notified() => false,
            _ = looks.tick() => true,
        };
        engine.record_watermarks().await;
        if (look || engine.watermarks.takes_stock())
            && let Err(error) = engine.look_at_watermarks().await
        {
            engine.watermarks.say(&error, "whether the database still has its watermarks is not known");
        }
        if let Err(error) = engine.answer_starts().await {
            engine.watermarks.say(&error, "where partitions are to be read from is not known yet: they wait");
            tokio::time::sleep(REST).await;
            engine.watermarks.bell.notify_one();
        }
    }
}

impl<S: Store> Engine<S> {
    /// Whether the database has all that it was given, also of partitions of which nothing is to be recorded.
    async fn look_at_watermarks(&self) -> Result<(), StoreError> {
        let recorded = self.lanes().recorded();
        if recorded.is_empty() {
            return Ok(());
        }
        let places: Vec<(&str, i32)> = recorded.iter().map(|(at, ..)| (&*at.topic, at.number)).collect();
        let known = self.store.watermarks(&self.group, &places).await?;
        self.live(known.life);
        for (partition, epoch, offset) in recorded {
            let row = known.rows.iter().find(|row| is_of(row, &partition));
            if row.is_none_or(|row| row.offset < offset) {
                self.lacks(&partition, epoch, offset);
            }
        }
        Ok(())
    }

    fn lacks(&self, partition: &Partition, epoch: u64, offset: i64) {
        let Partition { topic, number } = partition;
        tracing::warn!(
            %topic, partition = number, watermark = offset,
            "the database does not have the watermark that it was given"
        );
        self.doubt(partition, Some(epoch));
    }

    /// Asks, and takes the answer when it is there.
    pub(super) fn start_of(&self, facts: &Facts) -> Option<Result<Start, String>> {
        let partition = &facts.partition;
        let epoch = self.lanes().epoch(partition)?;
        let mut state = self.watermarks.state();
        let is_it = |of: u64, about: &Facts| of == epoch && about == facts;
        match state.answered.remove(partition).filter(|(of, about, _)| is_it(*of, about)) {
            Some((.., Answer::Begin { start, recorded, is_committed })) => {
                drop(state);
                if is_committed {
                    self.lanes().assign_at(partition, recorded);
                } else {
                    self.lanes().assign_uncommitted(partition, recorded);
                }
                Some(Ok(start))
            }
            Some((.., Answer::Refused(why))) => {
                self.health.missing_keys(&partition.topic, partition.number, &why);
                Some(Err(why))
            }
            None => {
                if !state.asked.get(partition).is_some_and(|(of, about)| is_it(*of, about)) {
                    state.asked.insert(partition.clone(), (epoch, facts.clone()));
                    self.watermarks.bell.notify_one();
                }
                None
            }
        }
    }

    async fn answer_starts(&self) -> Result<(), StoreError> {
        let asked: Vec<(u64, Facts)> = {
            let lanes = self.lanes();
            let mut state = self.watermarks.state();
            state.asked.retain(|partition, (epoch, _)| lanes.epoch(partition) == Some(*epoch));
            state.asked.values().cloned().collect()
        };
        if asked.is_empty() {
            return Ok(());
        }
        let places: Vec<(&str, i32)> =
            asked.iter().map(|(_, facts)| (&*facts.partition.topic, facts.partition.number)).collect();
        let known = self.store.watermarks(&self.group, &places).await?;
        self.live(known.life);
        let mut decided = Vec::new();
        for (epoch, facts) in asked {
            let row = known.rows.iter().find(|row| is_of(row, &facts.partition)).cloned();
            match history::decide(row.as_ref(), &facts, &known.lineage, self.watermarks.missing_keys) {
                Ok(decision) => decided.push((epoch, facts, row, decision)),
                Err(why) => self.answer(&facts, epoch, Answer::Refused(why)),
            }
        }
        self.settle_starts(known, decided).await
    }

    /// The rows are written before anything is read.
    async fn settle_starts(
        &self,
        known: Known,
        decided: Vec<(u64, Facts, Option<Watermark>, Decision)>,
    ) -> Result<(), StoreError> {
        let is_new = |row: &Option<Watermark>, decision: &Decision| row.as_ref() != Some(&decision.row);
        let revisions: Vec<Revision> = decided
            .iter()
            .filter(|(.., row, decision)| is_new(row, decision))
            .map(|(.., row, decision)| Revision { before: row.clone(), after: decision.row.clone() })
            .collect();
        let mut made = Vec::new();
        if !revisions.is_empty() {
            made = self.store.change_watermarks(&self.group, &revisions).await?;
        }
        let mut made = made.into_iter();
        let mut again = false;
        for (epoch, facts, row, decision) in decided {
            // Somebody else changed it meanwhile: it is looked at again.
            if is_new(&row, &decision) && made.next() != Some(true) {
                again = true;
                continue;
            }
            if let Some(finding) = &decision.finding {
                tell(&facts.partition, finding);
                self.health.noticed(notice(&facts.partition, finding));
            }
            let is_committed = !matches!(decision.finding, Some(Finding::OffsetMissing { .. }));
            let mark = history::mark(&decision.row, &known.lineage).into();
            let start = Start { offset: decision.start, mark };
            self.watermarks.state().ids.insert(facts.partition.clone(), decision.row.topic_id.clone());
            self.answer(&facts, epoch, Answer::Begin { start, recorded: decision.row.offset, is_committed });
        }
        if again {
            self.watermarks.bell.notify_one();
        }
        Ok(())
    }

    /// An answer to what is not asked any more is none: other facts were found meanwhile, and are looked at next.
    fn answer(&self, facts: &Facts, epoch: u64, answer: Answer) {
        let partition = &facts.partition;
        let mut state = self.watermarks.state();
        if state.asked.get(partition).is_some_and(|(of, about)| *of == epoch && about == facts) {
            state.asked.remove(partition);
            state.answered.insert(partition.clone(), (epoch, facts.clone(), answer));
        }
    }

    /// Writes what is settled, if that is due, and tells who waits for it.
    async fn record_watermarks(&self) {
        let waiting = {
            let mut state = self.watermarks.state();
            if !std::mem::take(&mut state.due) {
                return;
            }
            std::mem::take(&mut state.waiting)
        };
        if let Err(error) = self.advance_watermarks().await {
            self.watermarks.say(&error, "watermarks cannot be written, and no offset is committed meanwhile");
        }
        waiting.into_iter().for_each(|waiting| _ = waiting.send(()));
    }

    async fn advance_watermarks(&self) -> Result<(), StoreError> {
        let steps = self.lanes().to_record();
        let (Some(life), false) = (self.watermarks.state().life, steps.is_empty()) else { return Ok(()) };
        let ids: Vec<Option<String>> = {
            let state = self.watermarks.state();
            steps.iter().map(|step| state.ids.get(&step.partition).cloned().flatten()).collect()
        };
        let advances: Vec<Advance<'_>> = (steps.iter().zip(&ids))
            .map(|(Step { partition, from, to, .. }, id)| Advance {
                topic: &partition.topic,
                partition: partition.number,
                topic_id: id.as_deref(),
                from: *from,
                to: *to,
            })
            .collect();
        match self.store.advance(life, &self.group, &advances).await? {
            Advanced::Anew(life) => self.live(life),
            Advanced::Done(moved) => {
                for (step, moved) in steps.iter().zip(moved) {
                    self.advanced(step, moved);
                }
            }
        }
        Ok(())
    }

    fn advanced(&self, step: &Step, moved: bool) {
        let Step { partition, epoch, from, to } = step;
        if moved {
            self.lanes().record(step);
            let at = Coordinates { topic: partition.topic.clone(), partition: partition.number, offset: to - 1 };
            self.probe.reached(Point::Recorded, &at);
        } else {
            self.lacks(partition, *epoch, *from);
        }
    }

    /// The database's connection is of this life: whatever was done in an earlier one is in doubt.
    fn live(&self, life: u64) {
        let before = self.watermarks.state().life.replace(life);
        if before.is_none_or(|before| before == life) {
            return;
        }
        let ahead = self.lanes().ahead();
        if !ahead.is_empty() {
            tracing::warn!(
                partitions = ahead.len(),
                "the connection of the watermarks was lost, and maybe another server answers now: what was done and not \
                 recorded yet is read again, and skipped where it is known"
            );
        }
        ahead.iter().for_each(|partition| self.doubt(partition, None));
        self.watermarks.state().stock = true;
    }

    /// Forgets what is known of a partition in this epoch. Those that run end in an old one. What the consumer's
    /// thread still hands over, until it hears of this, is not taken: it lies behind what is read again.
    fn doubt(&self, partition: &Partition, epoch: Option<u64>) {
        let mut lanes = self.lanes();
        let current = lanes.epoch(partition);
        if current.is_none() || epoch.is_some_and(|epoch| current != Some(epoch)) {
            return;
        }
        lanes.assign(partition);
        lanes.drain(partition);
        drop(lanes);
        // What still holds is found again.
        self.health.gone(std::iter::once((&partition.topic, partition.number)));
        self.watermarks.state().doubted.push(partition.clone());
        self.rest.notify_all();
    }
}

fn is_of(row: &Watermark, partition: &Partition) -> bool {
    row.topic == partition.topic && row.partition == partition.number
}

fn notice(partition: &Partition, finding: &Finding) -> Notice {
    Notice {
        at: SystemTime::now(),
        topic: partition.topic.to_string(),
        partition: partition.number,
        finding: finding.word(),
        what: finding.to_string(),
    }
}

fn tell(partition: &Partition, finding: &Finding) {
    let Partition { topic, number } = partition;
    metrics::counter!(
        telemetry::FINDINGS,
        "topic" => topic.to_string(), "partition" => number.to_string(), "finding" => finding.word()
    )
    .increment(1);
    match finding {
        Finding::OffsetMissing { .. } | Finding::MovedAhead { .. } => {
            tracing::warn!(%topic, partition = number, finding = finding.word(), "{finding}")
        }
        _ => tracing::error!(%topic, partition = number, finding = finding.word(), "{finding}"),
    }
}
