//! Runs dead letters again that a person asked for.
//!
//! Invariant: a letter is marked as redriven in the transaction of its effects, so that it is run
//! until that commits, and once. One that fails again is open again.

mod route;
mod run;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use self::run::{Ran, Whose};
use super::execute::identity;
use super::outcome::Outcome;
use super::report::redrive_span;
use super::{Engine, Routed};
use crate::error::{Reason, Rejection};
use crate::message::Message;
use crate::store::{Fault, REQUESTS, Requested, Store};
use crate::telemetry;

/// How often requests are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// How long trouble of the database is waited for before the next try.
const REST: Duration = Duration::from_secs(2);

/// Works until the engine stops.
pub(crate) async fn redrive<S: Store>(engine: Arc<Engine<S>>) {
    let mut resting = HashMap::new();
    while !*engine.stopping.borrow() {
        engine.redrive_all(&mut resting).await;
        engine.rest(LOOK).await;
    }
}

/// What follows from a run.
enum Next {
    /// Its transaction says it all.
    Settled,
    /// It stays requested, and is run again after this wait.
    Later(Duration),
    /// It is open again.
    Open(Rejection),
}

/// What follows, and the word for it.
fn follows(outcome: Outcome) -> (&'static str, Next) {
    match outcome {
        Outcome::Done | Outcome::Discarded(_) => ("redriven", Next::Settled),
        Outcome::Duplicate | Outcome::Unverified | Outcome::DeadBefore => ("duplicate", Next::Settled),
        Outcome::Snoozed(wait) => ("snoozed", Next::Later(wait.max(LOOK))),
        Outcome::Failed(failure) if failure.fault == Fault::Transient => {
            tracing::warn!(error = %failure.detail, "could not be run again yet");
            ("transient", Next::Later(REST))
        }
        Outcome::Failed(failure) => ("dead", Next::Open(Rejection::new(failure.reason, failure.detail))),
        Outcome::Dead(rejection) => ("dead", Next::Open(rejection)),
    }
}

impl<S: Store> Engine<S> {
    async fn redrive_all(&self, resting: &mut HashMap<i64, Instant>) {
        let jobs: Vec<&str> = self.jobs.iter().map(|job| job.spec().name).collect();
        let topics: Vec<&str> = self.jobs.iter().map(|job| job.spec().topic).collect();
        let now = Instant::now();
        resting.retain(|_, until| *until > now);
        let mut after = 0;
        loop {
            let requested = match self.store.requested(after, &self.group, &jobs, &topics).await {
                Ok(requested) => requested,
                Err(error) => {
                    self.health.database(false);
                    return tracing::debug!(%error, "whether dead letters are to be run again is not known");
                }
            };
            // Asked every second, whatever the jobs do.
            self.health.database(true);
            for letter in &requested {
                if *self.stopping.borrow() {
                    return;
                }
                if !resting.contains_key(&letter.id)
                    && let Some(wait) = self.redrive_one(letter).await
                {
                    resting.insert(letter.id, Instant::now() + wait);
                }
            }
            match requested.last() {
                Some(last) if requested.len() == REQUESTS => after = last.id,
                _ => return,
            }
        }
    }

    /// How long it is to rest, if it is still to be run.
    async fn redrive_one(&self, letter: &Requested) -> Option<Duration> {
        let Some(name) = &letter.job else { return self.route(letter.id).await };
        let job = self.jobs.iter().find(|job| job.spec().name == name)?;
        let span = redrive_span(job.spec(), letter.id);
        let (message, outcome) = match self.run_letter(job, letter.id, Whose::Its).instrument(span.clone()).await {
            Ran::Gone => return None,
            Ran::Unread(error) => {
                tracing::warn!(letter = letter.id, %error, "could not be run again yet");
                return Some(REST);
            }
            Ran::To(message, outcome) => (message, outcome),
        };
        match span.in_scope(|| self.tell_redrive(job.spec().name, outcome)) {
            Next::Settled => None,
            Next::Later(wait) => Some(wait),
            Next::Open(rejection) => {
                self.open_again(letter.id, Some(job), &message, &rejection).instrument(span).await;
                None
            }
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
            Next::Open(rejection) => {
                tracing::error!(reason = %rejection.reason, error = %rejection.detail, "a dead letter was run again and died again");
            }
        }
        next
    }

    /// Until it is written, unless the worker stops: then the letter is run again after the next start.
    async fn open_again(&self, id: i64, job: Option<&Routed<S>>, message: &Message, rejection: &Rejection) {
        // Of a conflict the claim is another's.
        let job = job.filter(|_| rejection.reason != Reason::Conflict);
        let identity = job.and_then(|job| Some((job, identity(job, message)?)));
        while !*self.stopping.borrow() {
            let claim = identity
                .as_ref()
                .map(|(job, (key, fingerprint))| self.claim_of(job.spec(), key, *fingerprint, message));
            match self.store.reopen(id, rejection, claim).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "that a dead letter died again could not be written yet"),
            }
            self.rest(REST).await;
        }
    }
}
