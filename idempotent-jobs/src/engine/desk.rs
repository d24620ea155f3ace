//! What a worker has before it between two messages.

use std::sync::Arc;
use std::time::Duration;

use super::execute::prepare;
use super::lanes::Group;
use super::{Engine, Progress, Routed, terms};
use crate::context::Isolation;
use crate::job::Prepared;
use crate::message::Message;
use crate::store::{Claim, Claimed, CommitError, Store, StoreError, Terms};

/// A transaction that is open and not used, and the messages taken to use it.
///
/// The transaction was begun in the trip of the last commit, or its claim found the key taken.
/// It serves the next message or is rolled back at once: it is never left idle. One that holds a
/// claim serves that claim's message and no other, or the claim would be another's.
pub(super) struct Desk<S: Store> {
    open: Option<Open<S>>,
    /// Taken before the last commit, since its transaction was begun for them.
    pub(super) next: Option<Group<Progress>>,
    /// The terms of what this worker runs next of the messages it has.
    pub(super) then: Option<Terms>,
    /// What this worker has runs alone: nothing else is read or begun meanwhile.
    pub(super) alone: bool,
}

struct Open<S: Store> {
    tx: S::Tx,
    terms: Terms,
    claim: Option<Ahead>,
}

/// A message whose claim was made in the trip of the last commit.
struct Ahead {
    job: &'static str,
    message: Arc<Message>,
    prepared: Prepared,
}

impl<S: Store> Default for Desk<S> {
    fn default() -> Self {
        Self { open: None, next: None, then: None, alone: false }
    }
}

impl<S: Store> Desk<S> {
    /// The open transaction if it fits, or a new one.
    pub async fn begin(&mut self, engine: &Engine<S>, terms: Terms) -> Result<S::Tx, StoreError> {
        match self.take(engine, terms).await {
            Some(tx) => Ok(tx),
            None => engine.store.begin(terms).await,
        }
    }

    /// The open transaction if it fits; one that does not is ended.
    async fn take(&mut self, engine: &Engine<S>, terms: Terms) -> Option<S::Tx> {
        match self.open.take()? {
            Open { tx, terms: opened, claim: None } if opened == terms => Some(tx),
            Open { tx, .. } => {
                engine.store.rollback(tx).await;
                None
            }
        }
    }

    /// A transaction and what its claim found: the open one if it fits, or a new one.
    pub async fn begin_and_claim(
        &mut self,
        engine: &Engine<S>,
        terms: Terms,
        claim: Claim<'_>,
        budget: Duration,
    ) -> Result<(S::Tx, Claimed), StoreError> {
        let open = self.take(engine, terms).await;
        engine.store.begin_and_claim(open, terms, claim, budget).await
    }

    /// The open transaction, if it holds the claim of this message for this job.
    pub fn claimed(&mut self, job: &Routed<S>, message: &Arc<Message>) -> Option<(S::Tx, Prepared)> {
        let its = |ahead: &mut Ahead| ahead.job == job.spec().name && Arc::ptr_eq(&ahead.message, message);
        let Open { tx, claim, .. } = self.open.take_if(|open| open.claim.as_mut().is_some_and(its))?;
        Some((tx, claim?.prepared))
    }

    /// Keeps a transaction in which nothing was written. Under the higher isolation levels its
    /// snapshot is taken, and the next claim would meet it.
    pub async fn keep(&mut self, engine: &Engine<S>, tx: S::Tx, terms: Terms) {
        if S::CHAINS && !self.alone && terms.isolation == Isolation::ReadCommitted {
            self.open = Some(Open { tx, terms, claim: None });
        } else {
            engine.store.rollback(tx).await;
        }
    }

    /// Guard and commit; while work is waiting, the next transaction begins in the same trip, with
    /// the claim of the message it is for.
    pub async fn commit(&mut self, engine: &Engine<S>, tx: S::Tx, budget: Duration) -> Result<(), CommitError> {
        let told = S::told(&tx);
        let committed = self.commit_and_go_on(engine, tx, budget).await;
        if told && committed.is_ok() {
            engine.bell.notify_one();
        }
        committed
    }

    async fn commit_and_go_on(&mut self, engine: &Engine<S>, tx: S::Tx, budget: Duration) -> Result<(), CommitError> {
        if !S::CHAINS || self.alone {
            return engine.store.commit(tx, budget).await;
        }
        if self.then.is_none() {
            self.next = engine.take_ahead();
        }
        let opened = match (self.then, self.next.as_ref().and_then(|group| engine.first_of(group))) {
            (Some(terms), _) => self.begun(engine.store.commit_and_begin(tx, budget, terms).await, terms),
            (None, Some((job, Some(message)))) => self.commit_and_claim(engine, tx, budget, job, message).await,
            (None, Some((job, None))) => {
                let terms = terms(job.spec());
                self.begun(engine.store.commit_and_begin(tx, budget, terms).await, terms)
            }
            (None, None) => engine.store.commit(tx, budget).await,
        };
        if opened.is_err()
            && let Some(group) = self.next.take()
        {
            // Others can have it sooner than whoever has to make this good.
            engine.conclude(group.tasks, false);
        }
        opened
    }

    async fn commit_and_claim(
        &mut self,
        engine: &Engine<S>,
        tx: S::Tx,
        budget: Duration,
        job: &Routed<S>,
        message: Arc<Message>,
    ) -> Result<(), CommitError> {
        let (spec, terms) = (job.spec(), terms(job.spec()));
        // What cannot be read is told in its turn.
        let Ok(prepared) = prepare(job, &message) else {
            return self.begun(engine.store.commit_and_begin(tx, budget, terms).await, terms);
        };
        let claim = engine.claim(spec, &prepared, &message);
        let opened = engine.store.commit_and_claim(tx, budget, terms, claim).await?;
        self.open = opened.map(|(tx, claimed)| {
            let claim = claimed.then(|| Ahead { job: spec.name, message, prepared });
            Open { tx, terms, claim }
        });
        Ok(())
    }

    fn begun(&mut self, opened: Result<Option<S::Tx>, CommitError>, terms: Terms) -> Result<(), CommitError> {
        self.open = opened?.map(|tx| Open { tx, terms, claim: None });
        Ok(())
    }

    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Ends a transaction that nothing came for.
    pub async fn clear(&mut self, engine: &Engine<S>) {
        if let Some(Open { tx, .. }) = self.open.take() {
            engine.store.rollback(tx).await;
        }
    }
}
