//! One dead letter, one job, one transaction.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::{Engine, Routed};
use crate::engine::execute::{Left, enter, limit, prepare, refused};
use crate::engine::outcome::{Failure, Outcome};
use crate::engine::probe::Point;
use crate::engine::terms;
use crate::error::{JobError, Reason, Rejection};
use crate::job::Prepared;
use crate::message::Message;
use crate::store::{Claim, Claimed, CommitError, RECENT, Rolled, Store, StoreError};

/// Whose a letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The job's, whose transaction settles it.
    Its,
    /// Nobody's: each job that takes its event by now runs it as a new message.
    Nobodys,
}

/// What became of a letter.
pub(super) enum Ran {
    /// It is no longer requested, or another process has it, or its lane, or its note is too old.
    Gone,
    /// It could not be read.
    Unread(StoreError),
    /// It was run, or found done.
    To {
        message: Arc<Message>,
        outcome: Outcome,
        /// It waited behind another, and was never run before.
        is_first: bool,
    },
}

/// A letter is not settled by what may be another message.
const UNVERIFIED: &str = "its key was done by a message that was kept under another `compare`, and whether that was the same \
     content cannot be told: look at both, and skip this one if it was";

/// A run of a letter.
struct Run<'a, S: Store> {
    engine: &'a Engine<S>,
    job: &'a Routed<S>,
    id: i64,
    whose: Whose,
    ends: Instant,
}

impl<S: Store> Engine<S> {
    /// Takes a letter, and runs its message once: claim, mark, handler, commit. `failed`: attempts since it was requested.
    /// `noted`: when its note was about to be written. One that comes too late may be in doubt already, and is noted anew.
    pub(super) async fn run_letter(&self, job: &Routed<S>, id: i64, whose: Whose, failed: u32, noted: Instant) -> Ran {
        let mut tx = match self.store.begin_aside(terms(job.spec())).await {
            Ok(tx) => tx,
            Err(error) => return Ran::Unread(error),
        };
        let run = Run { engine: self, job, id, whose, ends: limit::<S>(&tx, job.spec()) };
        let letter = match self.store.take_letter(&mut tx, id).await {
            Ok(Some(letter)) if noted.elapsed() < RECENT => letter,
            Ok(_) => {
                self.store.rollback(tx).await;
                return Ran::Gone;
            }
            Err(error) => return Ran::Unread(error),
        };
        let is_first = letter.reason == Reason::Parked.as_str();
        let message = Arc::new(letter.message);
        let outcome = match self.prepare_letter(&mut tx, job, &message, whose).await {
            Ok(prepared) => run.run(tx, &message, prepared, letter.attempts + failed + 1).await,
            Err(outcome) => {
                self.store.rollback(tx).await;
                outcome
            }
        };
        Ran::To { message, outcome, is_first }
    }

    /// Reads it. One that no job took has no place in a lane; it does not run ahead of those that wait there.
    async fn prepare_letter(
        &self,
        tx: &mut S::Tx,
        job: &Routed<S>,
        message: &Message,
        whose: Whose,
    ) -> Result<Prepared, Outcome> {
        let spec = job.spec();
        if let Some(lane) = spec.park.filter(|_| whose == Whose::Nobodys).and_then(|_| spec.lane(message)) {
            match self.store.is_parked(tx, &self.group, spec.name, &message.coordinates, &lane).await {
                Ok(false) => {}
                Ok(true) => return Err(Outcome::Crowded),
                Err(error) => return Err(Failure::transient(error.to_string()).into()),
            }
        }
        prepare(job, message).map_err(Outcome::Dead)
    }
}

impl<S: Store> Run<'_, S> {
    async fn run(&self, mut tx: S::Tx, message: &Arc<Message>, prepared: Prepared, attempt: u32) -> Outcome {
        let Self { engine, job, ends, .. } = *self;
        let Prepared { key, fingerprint, payload } = prepared;
        let context = engine.context(job.spec(), message, key, attempt);
        let claim = engine.claim_of(job.spec(), &context.key, fingerprint, message);
        // A statement without an answer leaves a connection that is dropped with its transaction.
        match timeout_at(ends, self.claim(&mut tx, claim)).await {
            Ok(Ok(Claimed::Fresh)) => {}
            Ok(Ok(claimed)) => return self.seen(tx, claimed).await,
            Ok(Err(error)) => return Failure::from(error).into(),
            Err(_) => return Failure::transient("the claim of a dead letter had no answer in time").into(),
        }
        engine.probe.reached(Point::Claimed, &message.coordinates);
        match enter::<S>(job, tx, payload, &context, ends).await {
            Left::Done(tx) => {
                engine.probe.reached(Point::Handled, &message.coordinates);
                self.commit(tx, ends).await.map_or_else(Outcome::uncommitted, |()| Outcome::Done)
            }
            Left::Failed(tx, error) if error.is_discard() => self.discard(tx, claim, &error).await,
            Left::Failed(tx, error) => refused(engine, tx, error).await,
            Left::Lost(failure) => failure.into(),
        }
    }

    /// Claims, and marks the letter before its handler is entered: both hold if that commits.
    async fn claim(&self, tx: &mut S::Tx, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        let store = &self.engine.store;
        if self.whose == Whose::Nobodys {
            return store.claim(tx, claim).await;
        }
        let claimed = store.supersede(tx, claim).await?;
        if claimed == Claimed::Fresh {
            store.redriven(tx, self.id, None).await?;
        }
        Ok(claimed)
    }

    /// Its key is another's, or was done before: then its letter is settled.
    async fn seen(&self, mut tx: S::Tx, claimed: Claimed) -> Outcome {
        let store = &self.engine.store;
        if self.whose == Whose::Its && claimed == Claimed::Unverified {
            store.rollback(tx).await;
            return Outcome::Dead(Rejection::new(Reason::Conflict, UNVERIFIED));
        }
        if claimed != Claimed::Duplicate || self.whose == Whose::Nobodys {
            store.rollback(tx).await;
            return Outcome::seen(claimed);
        }
        match store.redriven(&mut tx, self.id, Some("its key was done before: not run")).await {
            Ok(()) => {
                let committed = self.commit(tx, self.ends).await;
                committed.map_or_else(Outcome::uncommitted, |()| Outcome::seen(claimed))
            }
            Err(error) => Failure::transient(error.to_string()).into(),
        }
    }

    async fn commit(&self, tx: S::Tx, ends: Instant) -> Result<(), CommitError> {
        let told = S::told(&tx);
        self.engine.store.commit(tx, ends.saturating_duration_since(Instant::now())).await?;
        if told {
            self.engine.bell.notify_one();
        }
        Ok(())
    }

    /// As a new message is discarded: what the handler wrote is undone, and the rest is committed alone.
    async fn discard(&self, tx: S::Tx, claim: Claim<'_>, error: &JobError) -> Outcome {
        if self.engine.store.rollback(tx).await == Rolled::EndedByHandler {
            return Outcome::uncommitted(CommitError::EndedByHandler);
        }
        match self.claim_again(claim).await {
            Ok((tx, Claimed::Fresh)) => match self.commit(tx, Instant::now() + self.job.spec().timeout).await {
                Ok(()) => Outcome::Discarded(S::describe(error.source())),
                Err(error) => Outcome::uncommitted(error),
            },
            Ok((tx, claimed)) => self.seen(tx, claimed).await,
            Err(error) => Failure::from(error).into(),
        }
    }

    async fn claim_again(&self, claim: Claim<'_>) -> Result<(S::Tx, Claimed), StoreError> {
        let store = &self.engine.store;
        let mut tx = store.begin_aside(terms(self.job.spec())).await?;
        if store.take_letter(&mut tx, self.id).await?.is_none() {
            return Err(StoreError::transient("discarding a dead letter", "another process has it"));
        }
        let claimed = self.claim(&mut tx, claim).await?;
        Ok((tx, claimed))
    }
}
