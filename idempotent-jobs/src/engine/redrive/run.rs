//! One dead letter, one job, one transaction.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{Engine, Routed};
use crate::context::Context;
use crate::engine::execute::{Left, enter, prepare, refused};
use crate::engine::outcome::{Failure, Outcome};
use crate::engine::probe::Point;
use crate::engine::terms;
use crate::error::JobError;
use crate::job::Prepared;
use crate::message::Message;
use crate::store::{Claim, Claimed, CommitError, Rolled, Store, StoreError};

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
    /// It is no longer requested, or another process has it.
    Gone,
    /// It could not be read.
    Unread(StoreError),
    /// It was run, or found done.
    To(Arc<Message>, Outcome),
}

impl<S: Store> Engine<S> {
    /// Takes a letter, and runs its message once: claim, mark, handler, commit.
    pub(super) async fn run_letter(&self, job: &Routed<S>, id: i64, whose: Whose) -> Ran {
        let ends = Instant::now() + job.spec().timeout;
        let mut tx = match self.store.begin_aside(terms(job.spec())).await {
            Ok(tx) => tx,
            Err(error) => return Ran::Unread(error),
        };
        let letter = match self.store.take_letter(&mut tx, id).await {
            Ok(Some(letter)) => letter,
            Ok(None) => {
                self.store.rollback(tx).await;
                return Ran::Gone;
            }
            Err(error) => return Ran::Unread(error),
        };
        let message = Arc::new(letter.message);
        let outcome = match prepare(job, &message) {
            Ok(prepared) => self.run_prepared(job, tx, id, whose, &message, prepared, letter.attempts + 1, ends).await,
            Err(rejection) => {
                self.store.rollback(tx).await;
                Outcome::Dead(rejection)
            }
        };
        Ran::To(message, outcome)
    }

    #[expect(clippy::too_many_arguments, reason = "one letter, one job, one transaction")]
    async fn run_prepared(
        &self,
        job: &Routed<S>,
        mut tx: S::Tx,
        id: i64,
        whose: Whose,
        message: &Arc<Message>,
        prepared: Prepared,
        attempt: u32,
        ends: Instant,
    ) -> Outcome {
        let Prepared { key, fingerprint, payload } = prepared;
        let context = self.context(job.spec(), message, key, attempt);
        let claim = self.claim_of(job.spec(), &context.key, fingerprint, message);
        // A statement without an answer leaves a connection that is dropped with its transaction.
        match timeout_at(ends, self.claim_letter(&mut tx, claim, id, whose)).await {
            Ok(Ok(Claimed::Fresh)) => {}
            Ok(Ok(Claimed::Duplicate | Claimed::Unverified)) if whose == Whose::Its => {
                return self.found_done(tx, id, ends).await;
            }
            Ok(Ok(claimed)) => {
                self.store.rollback(tx).await;
                return Outcome::seen(claimed);
            }
            Ok(Err(error)) => return Failure::from(error).into(),
            Err(_) => return Failure::transient("the claim of a dead letter had no answer in time").into(),
        }
        self.probe.reached(Point::Claimed, &message.coordinates);
        match enter::<S>(job, tx, payload, &context, ends).await {
            Left::Done(tx) => {
                self.probe.reached(Point::Handled, &message.coordinates);
                let committed = self.commit_letter(tx, ends).await;
                committed.map_or_else(Outcome::uncommitted, |()| Outcome::Done)
            }
            Left::Failed(tx, error) if error.is_discard() => {
                self.discard_letter(job, tx, &context, claim, id, whose, &error).await
            }
            Left::Failed(tx, error) => refused(self, tx, error).await,
            Left::Lost(failure) => failure.into(),
        }
    }

    /// Claims, and marks the letter before its handler is entered: both hold if that commits.
    async fn claim_letter(
        &self,
        tx: &mut S::Tx,
        claim: Claim<'_>,
        id: i64,
        whose: Whose,
    ) -> Result<Claimed, StoreError> {
        if whose == Whose::Nobodys {
            return self.store.claim(tx, claim).await;
        }
        let claimed = self.store.supersede(tx, claim).await?;
        if claimed == Claimed::Fresh {
            self.store.redriven(tx, id, None).await?;
        }
        Ok(claimed)
    }

    async fn found_done(&self, mut tx: S::Tx, id: i64, ends: Instant) -> Outcome {
        match self.store.redriven(&mut tx, id, Some("its key was done before: not run")).await {
            Ok(()) => {
                let committed = self.commit_letter(tx, ends).await;
                committed.map_or_else(Outcome::uncommitted, |()| Outcome::Duplicate)
            }
            Err(error) => Failure::transient(error.to_string()).into(),
        }
    }

    async fn commit_letter(&self, tx: S::Tx, ends: Instant) -> Result<(), CommitError> {
        let told = S::told(&tx);
        self.store.commit(tx, ends.saturating_duration_since(Instant::now())).await?;
        if told {
            self.bell.notify_one();
        }
        Ok(())
    }

    /// As a new message is discarded: what the handler wrote is undone, and the rest is committed alone.
    #[expect(clippy::too_many_arguments, reason = "one letter, one job, one transaction")]
    async fn discard_letter(
        &self,
        job: &Routed<S>,
        tx: S::Tx,
        context: &Context,
        claim: Claim<'_>,
        id: i64,
        whose: Whose,
        error: &JobError,
    ) -> Outcome {
        if self.store.rollback(tx).await == Rolled::EndedByHandler {
            return Outcome::uncommitted(CommitError::EndedByHandler);
        }
        let budget: Duration = job.spec().timeout;
        let again = async {
            let mut tx = self.store.begin_aside(terms(job.spec())).await?;
            if self.store.take_letter(&mut tx, id).await?.is_none() {
                return Err(StoreError::transient("discarding a dead letter", "another process has it"));
            }
            let claimed = self.claim_letter(&mut tx, claim, id, whose).await?;
            Ok((tx, claimed))
        };
        let at = &context.message.coordinates;
        match again.await {
            Ok((tx, Claimed::Fresh)) => match self.commit_letter(tx, Instant::now() + budget).await {
                Ok(()) => {
                    tracing::info!(why = %error, %at, "discarded by its handler: done without effect");
                    Outcome::Discarded(S::describe(error.source()))
                }
                Err(error) => Outcome::uncommitted(error),
            },
            Ok((tx, claimed)) => {
                self.store.rollback(tx).await;
                Outcome::seen(claimed)
            }
            Err(error) => Failure::from(error).into(),
        }
    }
}
