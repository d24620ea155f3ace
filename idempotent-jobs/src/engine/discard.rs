//! A message that its handler wants nothing to be done of: its key is claimed all the same.

use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use super::desk::Desk;
use super::execute::forget;
use super::outcome::{Failure, Outcome};
use crate::error::JobError;
use crate::store::{Claim, Claimed, CommitError, Rolled, Store, Terms};

/// Undoes what the handler wrote, and commits the claim alone, in a transaction of its own: the one
/// that was lent holds the claim behind the same savepoint as the writes.
pub(super) async fn discard<S: Store>(
    engine: &Engine<S>,
    desk: &mut Desk<S>,
    tx: S::Tx,
    terms: Terms,
    claim: Claim<'_>,
    kept: bool,
    error: &JobError,
) -> Outcome {
    if engine.store.rollback(tx).await == Rolled::EndedByHandler {
        return Outcome::uncommitted(CommitError::EndedByHandler);
    }
    // Its time is the database's, not the handler's.
    let budget: Duration = terms.timeout;
    match desk.begin_and_claim(engine, terms, claim, budget).await {
        Ok((mut tx, Claimed::Fresh)) => {
            if kept && let Err(failure) = forget(engine, &mut tx, claim, Instant::now() + budget).await {
                engine.store.rollback(tx).await;
                return failure.into();
            }
            match desk.commit(engine, tx, budget).await {
                Ok(()) => Outcome::Discarded(S::describe(error.source())),
                Err(error) => Outcome::uncommitted(error),
            }
        }
        Ok((tx, claimed)) => {
            desk.keep(engine, tx, terms).await;
            Outcome::seen(claimed)
        }
        Err(error) => Failure::from(error).into(),
    }
}
