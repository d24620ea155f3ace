//! Writes messages that are given up as dead letters, before their offsets move.
//!
//! Invariant: a message is settled as dead only once its dead letter is committed. Until then it waits
//! in its lane, its handler is not entered again, and its offset stays.

use std::sync::Arc;
use std::time::Instant;

use super::desk::Desk;
use super::execute::identity;
use super::lanes::Task;
use super::outcome::Outcome;
use super::probe::Point;
use super::report::unknown_event;
use super::settle::{self, Verdict, stumble};
use super::{Engine, Progress};
use crate::error::Fate;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::store::{Buried, Death, Fault, Store, StoreError};
use crate::telemetry;

/// Stands for the job of a message that no job takes.
const NOBODY: usize = usize::MAX;

impl<S: Store> Engine<S> {
    /// Writes the dead letter of a message that its job gave up.
    pub(super) async fn bury(&self, job: usize, task: &mut Task<Progress>, desk: &mut Desk<S>) -> Fault {
        // It takes a connection of its own, and this worker's may be the last.
        desk.clear(self).await;
        let identity = self.jobs.get(job).and_then(|routed| identity(routed, &task.message));
        while let Some(death) = task.progress.death(job).cloned() {
            let began = Instant::now();
            match self.store.bury(&self.death(job, task, identity.as_ref(), &death)).await {
                // Another process was quicker, and what its claim says counts. Of a conflict, which claims
                // nothing, this is never said: the loop ends.
                Ok(Buried::Seen(claimed)) => self.dug_up(job, task, Outcome::seen(claimed), began),
                Ok(buried) => self.buried(job, task, &death, &buried),
                Err(error) => {
                    self.not_buried(job, task, &error);
                    return Fault::Transient;
                }
            }
        }
        Fault::Lasting
    }

    fn death<'a>(
        &'a self,
        job: usize,
        task: &'a Task<Progress>,
        identity: Option<&'a (Key, Fingerprint)>,
        death: &'a settle::Death,
    ) -> Death<'a> {
        let spec = self.jobs.get(job).map(|routed| routed.spec());
        Death {
            group: &self.group,
            job: spec.map(|spec| spec.name),
            message: &task.message,
            claim: spec
                .zip(identity)
                .map(|(spec, (key, fingerprint))| self.claim_of(spec, key, *fingerprint, &task.message)),
            reason: death.rejection.reason,
            error: &death.rejection.detail,
            attempts: death.attempts,
            copy_to: self.copy_to(&task.message),
        }
    }

    /// The judgement on what the claim says replaces the one that the message is dead.
    fn dug_up(&self, job: usize, task: &mut Task<Progress>, outcome: Outcome, began: Instant) {
        task.progress.revive(job);
        self.enter(job, task, outcome, began);
    }

    fn buried(&self, job: usize, task: &mut Task<Progress>, death: &settle::Death, buried: &Buried) {
        let name = self.jobs.get(job).map_or("-", |routed| routed.spec().name);
        let at = &task.message.coordinates;
        if *buried == Buried::Written {
            let (topic, reason) = (at.topic.to_string(), death.rejection.reason.as_str());
            metrics::counter!(telemetry::DEAD_LETTERS, "job" => name, "topic" => topic, "reason" => reason)
                .increment(1);
            if self.copy_to(&task.message).is_some() {
                self.bell.notify_one();
            }
            tracing::warn!(job = name, %at, reason, "is a dead letter now, and the worker goes on");
        }
        self.probe.reached(Point::Buried, at);
        task.progress.enter(job, Verdict::Settled, Instant::now());
    }

    /// The database is away, or refuses: the message waits, whatever it takes.
    fn not_buried(&self, job: usize, task: &mut Task<Progress>, error: &StoreError) {
        let spec = self.jobs.get(job).map(|routed| routed.spec());
        let (standing, wait) = stumble(spec, task.progress.standing(job), rand::random());
        let topic = task.message.coordinates.topic.to_string();
        let name = spec.map_or("-", |spec| spec.name);
        metrics::counter!(telemetry::UNBURIED, "job" => name, "topic" => topic).increment(1);
        tracing::error!(
            job = name, at = %task.message.coordinates, %error, ?wait,
            "the dead letter could not be written: the message waits, and its offset stays"
        );
        task.progress.enter(job, Verdict::Again(standing, wait), Instant::now());
    }

    /// Messages that no job takes.
    pub(super) async fn unrouted(&self, mut tasks: Vec<Task<Progress>>, desk: &mut Desk<S>) {
        if self.unknown_event == Fate::Stop {
            let first = tasks.remove(0);
            let message = Arc::clone(&first.message);
            self.halt(first, tasks);
            return self.give_up(&message, None, unknown_event(&message));
        }
        for task in &mut tasks {
            task.progress.open(&[NOBODY]);
            let rejection = unknown_event(&task.message);
            if task.progress.death(NOBODY).is_none() {
                let topic = task.message.coordinates.topic.to_string();
                let word = if self.unknown_event == Fate::Skip { rejection.reason.as_str() } else { "dead" };
                metrics::counter!(telemetry::OUTCOMES, "job" => "-", "topic" => topic, "outcome" => word).increment(1);
            }
            if self.unknown_event == Fate::Skip {
                tracing::debug!(at = %task.message.coordinates, "an event that no job takes is skipped, as configured");
                task.progress.enter(NOBODY, Verdict::Settled, Instant::now());
                continue;
            }
            let death = settle::Death { rejection, attempts: 0 };
            task.progress.enter(NOBODY, Verdict::Bury(death), Instant::now());
            self.bury(NOBODY, task, desk).await;
        }
        self.conclude(tasks, false);
    }
}
