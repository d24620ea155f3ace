//! Runs dead letters again that a person asked for.
//!
//! Invariant: a letter is marked as redriven in the transaction of its effects, so that it is run
//! until that commits, and once. One that fails again is open again; one that was parked, and is run for the first time, has all
//! attempts of its job first.

mod noted;
mod route;
mod run;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use self::run::{Ran, Whose};
use super::execute::identity;
use super::gate::Pass;
use super::outcome::Outcome;
use super::report::redrive_span;
use super::settle::{Death, Standing, Verdict, judge};
use super::{Engine, Routed};
use crate::error::{Reason, Rejection};
use crate::message::Message;
use crate::store::{self, Fault, REQUESTS, Requested, Store};
use crate::telemetry;

/// How often requests are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// How long trouble of the database is waited for before the next try.
const REST: Duration = Duration::from_secs(2);

/// Works until the engine stops.
pub(crate) async fn redrive<S: Store>(engine: Arc<Engine<S>>) {
    let mut resting = HashMap::new();
    while !*engine.stopping.borrow() {
        // One that is settled may have let the next one of its lane go.
        if !engine.redrive_all(&mut resting).await {
            engine.rest(LOOK).await;
        }
    }
}

/// What became of a letter that was to be run.
enum After {
    /// It is settled.
    Settled,
    /// It is open, or somebody else's.
    Left,
    /// It is to be run again, not before this time is over.
    Rests(Standing, Duration),
    /// The same of one whose handler was entered, and came to its end.
    Again(Standing, Duration),
}

impl After {
    fn without_failures(self) -> Self {
        let none = |standing| Standing { failures: 0, ..standing };
        match self {
            Self::Rests(standing, wait) => Self::Rests(none(standing), wait),
            Self::Again(standing, wait) => Self::Again(none(standing), wait),
            after => after,
        }
    }
}

/// One that is to be run again.
struct Rest {
    until: Instant,
    standing: Standing,
}

/// How long it is known how often one failed that nobody came for.
const FORGET: Duration = Duration::from_secs(600);

/// Why a letter is open again.
struct Again<'a> {
    rejection: &'a Rejection,
    /// Those that its job was entered for since it was requested.
    attempts: u32,
    /// It died for the first time, having waited for another.
    copy_to: Option<&'a str>,
}

/// What follows from a run.
enum Next {
    /// Its transaction says it all.
    Settled,
    /// It stays requested, and is run again after this wait.
    Later(Duration),
    /// It is open again, after its job was entered or not.
    Open(Rejection, bool),
}

/// What follows, and the word for it.
fn follows(outcome: Outcome) -> (&'static str, Next) {
    match outcome {
        Outcome::Done | Outcome::Discarded(_) => ("redriven", Next::Settled),
        Outcome::Duplicate | Outcome::Unverified | Outcome::DeadBefore => ("duplicate", Next::Settled),
        Outcome::Parked | Outcome::Crowded => ("waits", Next::Later(REST)),
        Outcome::Snoozed(wait) => ("snoozed", Next::Later(wait.max(LOOK))),
        Outcome::Failed(failure) if failure.fault == Fault::Transient => {
            tracing::warn!(error = %failure.detail, "could not be run again yet");
            ("transient", Next::Later(REST))
        }
        Outcome::Failed(failure) => ("dead", Next::Open(Rejection::new(failure.reason, failure.detail), true)),
        Outcome::Dead(rejection) => {
            let entered = rejection.reason.was_entered();
            ("dead", Next::Open(rejection, entered))
        }
    }
}

impl<S: Store> Engine<S> {
    /// Runs what is requested; whether one of them was settled.
    async fn redrive_all(&self, resting: &mut HashMap<i64, Rest>) -> bool {
        let jobs: Vec<&str> = self.jobs.iter().map(|job| job.spec().name).collect();
        let topics: Vec<&str> = self.jobs.iter().map(|job| job.spec().topic).collect();
        let now = Instant::now();
        resting.retain(|_, rest| now < rest.until + FORGET);
        let (mut after, mut settled) = (0, false);
        loop {
            let requested = match self.store.requested(after, &self.group, &jobs, &topics).await {
                Ok(requested) => requested,
                Err(error) => {
                    self.health.database(false);
                    tracing::debug!(%error, "whether dead letters are to be run again is not known");
                    return false;
                }
            };
            // Asked every second, whatever the jobs do.
            self.health.database(true);
            for letter in &requested {
                if *self.stopping.borrow() {
                    return false;
                }
                let rest = resting.get(&letter.id);
                if rest.is_some_and(|rest| rest.until > now) {
                    continue;
                }
                let standing = rest.map(|rest| rest.standing).unwrap_or_default();
                match self.redrive_noted(letter, standing).await {
                    After::Rests(standing, wait) | After::Again(standing, wait) => {
                        resting.insert(letter.id, Rest { until: Instant::now() + wait, standing });
                    }
                    after => {
                        resting.remove(&letter.id);
                        settled |= matches!(after, After::Settled);
                    }
                }
            }
            match requested.last() {
                Some(last) if requested.len() == REQUESTS => after = last.id,
                _ => return settled,
            }
        }
    }

    /// `pass`: what lets it run; a letter that is opened again is no reason for others to wait.
    async fn redrive_one(
        &self,
        letter: &Requested,
        standing: Standing,
        noted: tokio::time::Instant,
        pass: &mut Option<Pass>,
    ) -> After {
        let rests = |wait| After::Rests(standing, wait);
        let Some(name) = &letter.job else {
            return self.route(letter.id, noted, pass).await.map_or(After::Left, rests);
        };
        let Some(job) = self.jobs.iter().find(|job| job.spec().name == name) else { return After::Left };
        let span = redrive_span(job.spec(), letter.id);
        let run = self.run_letter(job, letter.id, Whose::Its, standing.failures, noted);
        let (message, outcome, is_first) = match run.instrument(span.clone()).await {
            Ran::Gone => return rests(LOOK),
            Ran::Unread(error) => {
                tracing::warn!(letter = letter.id, %error, "could not be run again yet");
                return rests(REST);
            }
            Ran::To { message, outcome, is_first } => (message, outcome, is_first),
        };
        let outcome = match span.in_scope(|| self.judge_first(job, outcome, standing, is_first)) {
            Ok(outcome) => outcome,
            Err(after) => return after,
        };
        let snoozed = matches!(outcome, Outcome::Snoozed(_));
        match span.in_scope(|| self.tell_redrive(job.spec().name, outcome)) {
            Next::Later(wait) if snoozed => After::Again(standing, wait),
            Next::Settled => After::Settled,
            Next::Later(wait) => rests(wait),
            Next::Open(rejection, entered) => {
                let attempts = standing.failures + u32::from(entered);
                let copied = is_first.then(|| self.copy_to(&message)).flatten();
                let again = Again { rejection: &rejection, attempts, copy_to: copied };
                let opened = self.open_again(letter.id, Some(job), &message, again, pass).instrument(span).await;
                opened.map_or(After::Left, rests)
            }
        }
    }

    /// One that waited behind another and has never been run is judged as any new message.
    fn judge_first(
        &self,
        job: &Routed<S>,
        outcome: Outcome,
        standing: Standing,
        is_first: bool,
    ) -> Result<Outcome, After> {
        if !is_first || !matches!(&outcome, Outcome::Failed(failure) if failure.fault == Fault::Lasting) {
            return Ok(outcome);
        }
        match judge(&outcome, job.spec(), standing, rand::random()) {
            Verdict::Again(standing, wait) => {
                tracing::warn!(?outcome, ?wait, "the attempt failed; made again");
                let name = job.spec().name;
                metrics::counter!(telemetry::REDRIVES, "job" => name, "outcome" => "retry").increment(1);
                Err(After::Again(standing, wait))
            }
            Verdict::Bury(Death { rejection, .. }) | Verdict::Stop(rejection) => Ok(Outcome::Dead(rejection)),
            Verdict::Settled => Ok(outcome),
        }
    }

    fn tell_redrive(&self, job: &'static str, outcome: Outcome) -> Next {
        if let Outcome::Discarded(why) = &outcome {
            tracing::info!(why, "discarded by its handler: done without effect");
        }
        let (word, next) = follows(outcome);
        tracing::Span::current().record("outcome", word);
        metrics::counter!(telemetry::REDRIVES, "job" => job, "outcome" => word).increment(1);
        match &next {
            Next::Settled => tracing::info!(outcome = word, "a dead letter was run again"),
            Next::Later(_) => {}
            Next::Open(rejection, _) => {
                tracing::error!(reason = %rejection.reason, error = %rejection.detail, "a dead letter was run again and died again");
            }
        }
        next
    }

    /// How long it is to rest, if that could not be written: then it is run again, since nothing of its run is stored.
    async fn open_again(
        &self,
        id: i64,
        job: Option<&Routed<S>>,
        message: &Message,
        again: Again<'_>,
        pass: &mut Option<Pass>,
    ) -> Option<Duration> {
        let Again { rejection, attempts, copy_to } = again;
        // Of a conflict the claim is another's.
        let claims = job.filter(|_| rejection.reason != Reason::Conflict);
        let identity = claims.and_then(|job| Some((job, identity(job, message)?)));
        // Nothing of the user's runs from here on.
        *pass = None;
        let claim =
            identity.as_ref().map(|(job, (key, fingerprint))| self.claim_of(job.spec(), key, *fingerprint, message));
        let death = store::Death {
            group: &self.group,
            job: job.map(|job| job.spec().name),
            message,
            claim,
            reason: rejection.reason,
            error: &rejection.detail,
            attempts,
            copy_to,
            lane: None,
        };
        let first = copy_to.is_some().then_some(&death);
        let again = store::Again { rejection, attempts, claim, first };
        match self.store.reopen(id, &again).await {
            Ok(_) if copy_to.is_some() => self.bell.notify_one(),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "that a dead letter died again could not be written yet");
                return Some(REST);
            }
        }
        None
    }
}
