//! Keeps the later messages of a lane behind one that died.
//!
//! Whether a lane waits is decided in the database, under the lock of its row. What is known here is only which lanes to
//! ask for, and errs on that side: those that waited when the assignment began, and those of which a
//! message was found dead since.
//!
//! That is enough, also for an owner that slept while another one went on: to come to a message it has settled all earlier
//! ones of the lane in this assignment. One it did itself is no dead letter. One that was done before it cannot die any more. And one that is a dead letter
//! it found by its claim, which was committed together with the lane's row. A lane is forgotten here only when its
//! row is gone, and then all of these are decided.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Instrument;

use super::desk::Desk;
use super::execute::prepare;
use super::graves::REST;
use super::lanes::Task;
use super::outcome::{Failure, Outcome};
use super::{Engine, Progress, report};
use crate::error::Reason;
use crate::job::{Prepared, Spec};
use crate::key::hex;
use crate::store::{Death, Fault, Parking, Store, StoreError};
use crate::telemetry;

/// A lane of a job, by the job's place in the engine's list.
type Lane = (usize, [u8; 32]);

/// Lanes that may wait, of each assignment.
#[derive(Debug, Default)]
pub(super) struct Parked(Mutex<HashMap<u64, Lanes>>);

#[derive(Debug, Default)]
struct Lanes {
    /// Whether the database was asked. What is found meanwhile counts beside its answer, which may be older.
    asked: bool,
    /// And when it was last told that one is full.
    told: HashMap<Lane, Option<Instant>>,
}

/// A full lane is told of once in this time.
const TELL: Duration = Duration::from_secs(60);

impl Parked {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Lanes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knows(&self, epoch: u64) -> bool {
        self.all().get(&epoch).is_some_and(|lanes| lanes.asked)
    }

    /// `current`: the assignments there are, and none that began since may be missing.
    fn keep(&self, epoch: u64, lanes: impl IntoIterator<Item = Lane>, current: &[u64]) {
        let mut all = self.all();
        all.retain(|epoch, _| current.contains(epoch));
        // Two workers may have asked, and one of them went on since.
        let known = all.entry(epoch).or_default();
        known.asked = true;
        lanes.into_iter().for_each(|lane| _ = known.told.entry(lane).or_default());
    }

    fn add(&self, epoch: u64, lane: Lane) {
        self.all().entry(epoch).or_default().told.entry(lane).or_default();
    }

    fn forget(&self, epoch: u64, lane: Lane) {
        if let Some(lanes) = self.all().get_mut(&epoch) {
            lanes.told.remove(&lane);
        }
    }

    fn has(&self, epoch: u64, lane: impl FnOnce() -> Option<Lane>) -> Option<Lane> {
        let all = self.all();
        let lanes = all.get(&epoch).filter(|lanes| !lanes.told.is_empty())?;
        lane().filter(|lane| lanes.told.contains_key(lane))
    }

    /// Whether that the lane is full is to be told now.
    fn tells(&self, epoch: u64, lane: Lane, now: Instant) -> bool {
        let mut all = self.all();
        let Some(told) = all.get_mut(&epoch).and_then(|lanes| lanes.told.get_mut(&lane)) else { return false };
        let due = told.is_none_or(|told| now >= told + TELL);
        if due {
            *told = Some(now);
        }
        due
    }
}

impl<S: Store> Engine<S> {
    /// Asks which lanes of new assignments wait. `false`: nobody knows, and nothing may run.
    pub(super) async fn know_parked(&self, tasks: &[Task<Progress>], jobs: &[usize], desk: &mut Desk<S>) -> bool {
        if jobs.iter().all(|job| self.jobs[*job].spec().park.is_none()) {
            return true;
        }
        for task in tasks.iter().filter(|task| task.progress.given_up.is_none()) {
            if let Err(error) = self.ask_parked(task, desk).await {
                tracing::warn!(%error, "which lanes of a partition wait is not known yet: it waits");
                self.rest(REST).await;
                return false;
            }
        }
        true
    }

    async fn ask_parked(&self, task: &Task<Progress>, desk: &mut Desk<S>) -> Result<(), StoreError> {
        if self.parked.knows(task.epoch()) {
            return Ok(());
        }
        // It takes a connection of its own, and this worker's may be the last.
        desk.clear(self).await;
        let found = self.store.parked(&self.group, &task.message.coordinates).await?;
        let lane = |(name, lane): (String, Vec<u8>)| {
            let job = self.jobs.iter().position(|job| job.spec().name == name)?;
            Some((job, lane.try_into().ok()?))
        };
        // Held, so that no assignment begins in between, of which something may be known already.
        let lanes = self.lanes();
        self.parked.keep(task.epoch(), found.into_iter().filter_map(lane), &lanes.epochs());
        Ok(())
    }

    /// The lane that is asked for before the message may run.
    pub(super) fn waiting_lane(&self, job: usize, task: &Task<Progress>) -> Option<[u8; 32]> {
        let spec = self.jobs[job].spec();
        spec.park?;
        let lane = || spec.lane(&task.message).map(|lane| (job, lane));
        self.parked.has(task.epoch(), lane).map(|(_, lane)| lane)
    }

    /// A message is a dead letter: the later ones of its lane may have to wait.
    pub(super) fn may_wait(&self, job: usize, task: &Task<Progress>) {
        let Some(spec) = self.jobs.get(job).map(|job| job.spec()).filter(|spec| spec.park.is_some()) else { return };
        if let Some(lane) = spec.lane(&task.message) {
            self.parked.add(task.epoch(), (job, lane));
        }
    }

    /// Writes a message whole behind the dead letter of its lane. `None`: the lane does not wait, and it runs.
    pub(super) async fn park(
        &self,
        job: usize,
        task: &mut Task<Progress>,
        lane: &[u8; 32],
        desk: &mut Desk<S>,
    ) -> Option<Fault> {
        let (routed, began) = (&self.jobs[job], Instant::now());
        let spec = routed.spec();
        let prepared = match prepare(routed, &task.message) {
            Ok(prepared) => Some(prepared),
            // It is read again in its turn.
            Err(rejection) if spec.parks(rejection.reason) => None,
            Err(_) => return None,
        };
        // It takes a connection of its own, and this one may hold the claim.
        desk.clear(self).await;
        let span = report::span(spec, &task.message, task.progress.standing(job));
        if let Some(prepared) = &prepared {
            span.record("key_hash", prepared.key.hash());
        }
        let death = self.waits(spec, task, prepared.as_ref());
        let limit = spec.park.unwrap_or(u32::MAX);
        let parking = self.store.park(&death, lane, limit).instrument(span.clone()).await;
        self.show_full(spec, task, lane, &parking);
        let outcome = match parking {
            Ok(Parking::Free) => {
                self.parked.forget(task.epoch(), (job, *lane));
                return None;
            }
            Ok(Parking::Parked) => {
                metrics::counter!(telemetry::PARKED, "job" => spec.name, "topic" => spec.topic).increment(1);
                Outcome::Parked
            }
            Ok(Parking::Already) => Outcome::DeadBefore,
            Ok(Parking::Seen(claimed)) => Outcome::seen(claimed),
            Ok(Parking::Full { waiting, head }) => {
                self.tell_full(job, task, lane, (waiting, head));
                task.progress.waits(job);
                Outcome::Crowded
            }
            Err(error) => Failure::transient(error.to_string()).into(),
        };
        let fault = outcome.fault();
        span.in_scope(|| self.enter(job, task, outcome, began));
        match task.progress.death(job) {
            // Its key is another message's, and that has an option of its own.
            Some(_) => Some(self.bury(job, task, desk).instrument(span).await),
            None => Some(fault),
        }
    }

    /// What nobody knows stays as it was.
    fn show_full(&self, spec: &Spec, task: &Task<Progress>, lane: &[u8; 32], parking: &Result<Parking, StoreError>) {
        let full = match parking {
            Ok(Parking::Full { waiting, .. }) => Some(*waiting),
            // A lane that is full all the same says so with its next message.
            Ok(Parking::Free | Parking::Parked | Parking::Already | Parking::Seen(_)) => None,
            Err(_) => return,
        };
        let at = &task.message.coordinates;
        self.health.lane_full(&at.topic, at.partition, spec.name, lane, full);
    }

    fn waits<'a>(&'a self, spec: &'a Spec, task: &'a Task<Progress>, prepared: Option<&'a Prepared>) -> Death<'a> {
        Death {
            group: &self.group,
            job: Some(spec.name),
            message: &task.message,
            claim: prepared.map(|prepared| self.claim(spec, prepared, &task.message)),
            reason: Reason::Parked,
            error: "an earlier message of its lane is a dead letter: it is run when that one is redriven or skipped",
            attempts: 0,
            copy_to: None,
            lane: None,
        }
    }

    fn tell_full(&self, job: usize, task: &Task<Progress>, lane: &[u8; 32], (waiting, letter): (u32, i64)) {
        let spec = self.jobs[job].spec();
        metrics::counter!(telemetry::LANE_FULL, "job" => spec.name, "topic" => spec.topic).increment(1);
        if self.parked.tells(task.epoch(), (job, *lane), Instant::now()) {
            tracing::warn!(
                job = spec.name, at = %task.message.coordinates, lane = hex(&lane[..8]), letter, waiting, limit = spec.park,
                "so many messages wait behind a dead letter of this lane that it takes in no more: decide on that letter (`idempotent-jobs dead-letters \
                 redrive {letter}` when its cause is mended, or `skip {letter}`), or its partition comes to stand still"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_while_the_database_is_asked_counts_beside_its_answer() {
        let parked = Parked::default();
        let lane = (0, [1; 32]);
        parked.add(7, lane);
        assert!(!parked.knows(7), "others may wait too");
        // It was asked before the lane began to wait.
        parked.keep(7, [], &[7]);
        assert!(parked.knows(7));
        assert_eq!(parked.has(7, || Some(lane)), Some(lane));
        parked.keep(7, [(1, [2; 32])], &[7]);
        assert_eq!(parked.has(7, || Some(lane)), Some(lane), "a late answer takes nothing away");
        parked.forget(7, lane);
        assert_eq!(parked.has(7, || Some(lane)), None);
        parked.keep(8, [], &[8]);
        assert!(!parked.knows(7), "an assignment that is over is forgotten");
    }

    #[test]
    fn a_full_lane_is_told_once_a_minute() {
        let (parked, lane, now) = (Parked::default(), (0, [1; 32]), Instant::now());
        parked.keep(7, [lane], &[7]);
        let told = [0, 1, 59, 60, 61, 121].map(|at| parked.tells(7, lane, now + Duration::from_secs(at)));
        assert_eq!(told, [true, false, false, true, false, true]);
    }
}
