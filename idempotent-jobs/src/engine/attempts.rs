//! Attempts that outlive their process.
//!
//! Invariants: an attempt that failed and counts is noted before its message comes back to its lane, so that
//! no restart counts anew; one that is [alone](super::gate) is noted before anything of the user's reads its
//! message, and until its transaction or a later note says otherwise, whoever dies, died of it. A message is
//! given up for that after [some deaths](super::settle::KILLS), and for no other's.

use std::time::Instant;

use super::desk::Desk;
use super::lanes::Task;
use super::outcome::{Failure, Outcome};
use super::settle::killed;
use super::{Engine, Progress};
use crate::store::{Fault, Note, Store, StoreError, Tried};

/// What is to be remembered of an outcome.
pub(super) struct Said {
    pub fault: Fault,
    /// Something was noted of the message before, or may have been.
    pub kept: bool,
    what: What,
}

enum What {
    /// Its transaction took the note with it.
    Taken,
    /// Attempts and time: it failed, or wants to be seen later.
    Counts(Option<String>),
    /// That it waits for room in its lane, which may take days: the keys of its topic are not to be purged meanwhile.
    Waits,
    /// Only that it no longer runs.
    Nothing,
}

/// Transient failures in a row, about a minute of them, after which it is noted that a message waits, and again
/// after as many more.
const STUMBLES: u32 = 16;

impl Said {
    pub fn by(outcome: &Outcome, kept: bool) -> Self {
        let what = match outcome {
            Outcome::Done | Outcome::Discarded(_) => What::Taken,
            Outcome::Snoozed(_) => What::Counts(None),
            Outcome::Failed(Failure { fault: Fault::Lasting, detail, .. }) => What::Counts(Some(detail.clone())),
            _ => What::Nothing,
        };
        Self { fault: outcome.fault(), kept, what }
    }

    pub fn nothing(kept: bool) -> Self {
        Self { fault: Fault::Lasting, kept, what: What::Nothing }
    }

    /// Its lane waits, and nothing ran.
    pub fn parked(fault: Fault, died: bool, kept: bool, noted: bool) -> Self {
        let what = if fault == Fault::Transient || died || noted { What::Nothing } else { What::Waits };
        Self { fault, kept, what }
    }

    fn error(&self) -> Option<&str> {
        match &self.what {
            What::Counts(error) => error.as_deref(),
            What::Taken | What::Waits | What::Nothing => None,
        }
    }
}

impl<S: Store> Engine<S> {
    fn tried<'a>(&'a self, job: usize, task: &'a Task<Progress>) -> Tried<'a> {
        Tried { group: &self.group, job: self.jobs[job].spec().name, message: &task.message }
    }

    /// Notes that a message is about to run alone. Without that it does not.
    pub(super) async fn note_run(&self, job: usize, task: &mut Task<Progress>) -> Result<(), Fault> {
        let noted = match self.owners.of(task.epoch()) {
            Some(owned) => self.store.note(&self.tried(job, task), Note::Runs(&owned.owner)).await,
            None => Err(StoreError::transient("noting an attempt", "the partition was let go")),
        };
        // It may be there also when nothing was answered.
        task.progress.keep(job);
        noted.map_err(|error| {
            let failure = Failure::transient(error.to_string());
            self.enter(job, task, failure.into(), Instant::now());
            Fault::Transient
        })
    }

    /// Notes what became of an attempt whose transaction does not say it. Trouble of the database leaves the
    /// count to memory.
    pub(super) async fn note_end(&self, job: usize, task: &mut Task<Progress>, said: &Said, desk: &mut Desk<S>) {
        let waits = task.progress.is_open(job) && task.progress.given_up.is_none();
        match said.what {
            What::Taken => return,
            What::Nothing if waits && !desk.alone && !self.is_long(job, task) => return,
            // A worker that stops for a message counts anew when it is started again: somebody has seen it.
            _ if !waits && !said.kept => return,
            _ => {}
        }
        desk.clear(self).await;
        let owner = self.owners.name(task.epoch());
        let survived = desk.alone && matches!(said.what, What::Counts(_));
        let note = if waits {
            Note::Waits {
                owner: &owner,
                failures: task.progress.standing(job).failures,
                wait: task.progress.wait(job, Instant::now()),
                error: said.error(),
                survived,
            }
        } else {
            Note::Settled
        };
        match self.store.note(&self.tried(job, task), note).await {
            Ok(_) => {
                task.progress.noted(job);
                if waits && survived {
                    task.progress.survived(job);
                }
            }
            Err(error) => {
                let at = &task.message.coordinates;
                tracing::warn!(%error, %at, "an attempt could not be noted: a restart does not know of it");
                // Or it may be.
                task.progress.keep(job);
            }
        }
    }

    /// Whether it is time to note that a message has waited long for the end of some trouble.
    fn is_long(&self, job: usize, task: &Task<Progress>) -> bool {
        let stumbles = task.progress.standing(job).stumbles;
        stumbles > 0 && stumbles.is_multiple_of(STUMBLES)
    }

    /// Gives up a message that killed its process too often.
    pub(super) fn accuse(&self, job: usize, task: &mut Task<Progress>) {
        let routed = &self.jobs[job];
        let (standing, deaths) = (task.progress.standing(job), task.progress.deaths(job));
        let verdict = killed(routed.spec(), standing, deaths);
        self.owners.found_killer();
        tracing::error!(job = routed.spec().name, at = %task.message.coordinates, deaths, "killed its process whenever it ran, with nothing beside it");
        task.progress.enter(job, verdict, Instant::now());
    }
}
