//! What a worker has before it between two messages.

use crate::context::Isolation;
use crate::store::{CommitError, Store, StoreError, Terms};

use super::lanes::Group;
use super::{Engine, Progress};

/// A transaction that is open and not used, and the messages taken to use it.
///
/// The transaction was begun in the trip of the last commit, or its claim found the key taken.
/// It serves the next message or is rolled back at once: it is never left idle.
pub(super) struct Desk<S: Store> {
    open: Option<(S::Tx, Terms)>,
    /// Taken before the last commit, since its transaction was begun for them.
    pub(super) next: Option<Group<Progress>>,
    /// The terms of what this worker runs next of the messages it has.
    pub(super) then: Option<Terms>,
}

impl<S: Store> Default for Desk<S> {
    fn default() -> Self {
        Self { open: None, next: None, then: None }
    }
}

impl<S: Store> Desk<S> {
    /// The open transaction if it fits, or a new one.
    pub async fn begin(&mut self, engine: &Engine<S>, terms: Terms) -> Result<S::Tx, StoreError> {
        match self.open.take() {
            Some((tx, opened)) if opened == terms => Ok(tx),
            Some((tx, _)) => {
                engine.store.rollback(tx).await;
                engine.store.begin(terms).await
            }
            None => engine.store.begin(terms).await,
        }
    }

    /// Keeps a transaction in which nothing was written. Under the higher isolation levels its
    /// snapshot is taken, and the next claim would meet it.
    pub async fn keep(&mut self, engine: &Engine<S>, tx: S::Tx, terms: Terms) {
        if S::CHAINS && terms.isolation == Isolation::ReadCommitted {
            self.open = Some((tx, terms));
        } else {
            engine.store.rollback(tx).await;
        }
    }

    /// Guard and commit; while work is waiting, the next transaction begins in the same trip.
    pub async fn commit(
        &mut self,
        engine: &Engine<S>,
        tx: S::Tx,
        budget: std::time::Duration,
    ) -> Result<(), CommitError> {
        if !S::CHAINS {
            return engine.store.commit(tx, budget).await;
        }
        let next = self.then.or_else(|| {
            self.next = engine.take_ahead();
            self.next.as_ref().and_then(|group| engine.terms_of(group))
        });
        let Some(terms) = next else { return engine.store.commit(tx, budget).await };
        match engine.store.commit_and_begin(tx, budget, terms).await {
            Ok(opened) => {
                self.open = opened.map(|tx| (tx, terms));
                Ok(())
            }
            Err(error) => {
                // Others can have it sooner than whoever has to make this good.
                if let Some(group) = self.next.take() {
                    engine.conclude(group.tasks, false);
                }
                Err(error)
            }
        }
    }

    /// Ends a transaction that nothing came for.
    pub async fn clear(&mut self, engine: &Engine<S>) {
        if let Some((tx, _)) = self.open.take() {
            engine.store.rollback(tx).await;
        }
    }
}
