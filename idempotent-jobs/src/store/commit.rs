//! Guard and COMMIT, by themselves or with the next transaction behind them.

use std::time::Duration;

use sqlx::Error;
use tokio::time::{Instant, timeout, timeout_at};

use super::dialect::{Broken, Chain, Dialect, depth};
use super::handle::{CUT, Notes, Tx};
use super::slots::Lease;
use super::transaction::{LEAST, ROLLBACK, undo};
use super::{CommitError, EnqueueError, StoreError, Terms, enqueue, fault};

const CLOSING: &str = "closing the transaction";
const COMMITTING: &str = "committing";
const STORING: &str = "storing records in the outbox";

/// Stores the records that were held for the outbox: the last statements before the guard. Gives
/// the rest of the budget.
pub(super) async fn flushed<DB: Dialect>(mut tx: Tx<DB>, budget: Duration) -> Result<(Tx<DB>, Duration), CommitError> {
    if tx.notes.refused || tx.notes.cut || tx.notes.open > 0 {
        // It will not be committed, and is told why.
        return Ok((tx, budget));
    }
    if let Some(why) = tx.notes.held.lost.take() {
        return Err(not_all(tx.notes, &why));
    }
    let (began, limit, loose) = (Instant::now(), budget.max(LEAST), tx.notes.loose);
    let (conn, notes) = tx.parts();
    let error = match timeout(limit, enqueue::flush(conn, notes)).await {
        Ok(Ok(())) => return Ok((tx, budget.saturating_sub(began.elapsed()))),
        Ok(Err(EnqueueError::Database(error))) => error,
        Ok(Err(error @ EnqueueError::Busy { .. })) => {
            return Err(CommitError::Refused(StoreError::transient(STORING, error)));
        }
        Ok(Err(error)) => return Err(CommitError::Refused(StoreError::lasting(STORING, error))),
        // Whoever leaves a statement running behind would leave it again.
        Err(_) if loose => return Err(CommitError::Refused(StoreError::lasting(STORING, silence(limit)))),
        Err(_) => return Err(CommitError::Refused(StoreError::transient(STORING, silence(limit)))),
    };
    let Tx { lease, notes, .. } = tx;
    if loose || is_earlier::<DB>(&notes, &error) {
        return Err(diagnose(lease, notes, error).await);
    }
    Err(CommitError::Refused(StoreError::driver::<DB>(STORING, error)))
}

/// Whether a statement had failed, or the transaction was there no more, before this one was sent.
fn is_earlier<DB: Dialect>(notes: &Notes<DB>, error: &Error) -> bool {
    let Error::Database(error) = error else { return false };
    let outside = notes.lent && error.code().is_some_and(|code| code == "25006");
    outside || matches!(DB::broken(&**error), Broken::Aborted | Broken::Gone)
}

/// Some records were taken and are not stored, and the handler returned `Ok` all the same.
fn not_all<DB>(notes: Notes<DB>, why: &str) -> CommitError {
    match notes.first_error {
        first @ Some(_) => CommitError::Swallowed { first },
        None => CommitError::Refused(StoreError::lasting(STORING, format!("not all are stored: {why}"))),
    }
}

/// Commits. Gives the connection if it can be kept; every early return closes it.
pub(super) async fn commit<DB: Dialect>(tx: Tx<DB>, budget: Duration) -> Result<Option<Lease<DB>>, CommitError> {
    let budget = budget.max(LEAST);
    let deadline = Instant::now() + budget;
    let Tx { mut lease, terms, notes } = tx;
    let session = &mut lease.session;
    if notes.refused {
        return Err(CommitError::EndedByHandler);
    }
    if notes.cut {
        return Err(was_cut(notes));
    }
    // Once a session, which mostly serves jobs of the same terms.
    let settle = (session.settled.is_none() && !notes.tainted).then_some(terms.timeout);
    let closing = DB::closing(&session.guard, &session.mark, notes.lent, settle);
    // A trip saved where the session knows better. Not when the connection was lent, which could
    // have blinded it, nor when a rollback or a statement may still be on its way, behind which
    // COMMIT is to be sent.
    let known = DB::WATCHES && !notes.lent && !notes.parted && !notes.loose;
    let closed = async { if known { Ok(()) } else { DB::run(&mut session.conn, closing).await } };
    match timeout_at(deadline, closed).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(diagnose(lease, notes, error).await),
        Err(_) => {
            // Lasting, as a handler's statement without an answer is: whoever leaves one running
            // behind it would leave it again.
            let late = format!(
                "the attempt's timeout ended before COMMIT was sent: the guard had no answer within {budget:?}"
            );
            return Err(CommitError::Refused(StoreError::lasting(CLOSING, late)));
        }
    }
    // Only now: the rollback of a dropped savepoint may have been on its way until here.
    if depth::<DB>(&session.conn) != 1 {
        return Err(CommitError::SavepointLeft);
    }
    DB::permit(&session.guard, true);
    let answer = timeout_at(deadline, DB::commit(&mut session.conn)).await;
    DB::permit(&session.guard, false);
    match answer {
        Ok(Ok(())) if DB::ended(&session.guard) => return Err(gone(notes)),
        Ok(Ok(())) => {}
        Ok(Err(Error::Database(error))) if DB::ended(&session.guard) && DB::broken(&*error) == Broken::Gone => {
            return Err(gone(notes));
        }
        Ok(Err(Error::Database(error))) if DB::proves_rollback(&*error) => {
            return Err(CommitError::Refused(StoreError::driver::<DB>(COMMITTING, Error::Database(error))));
        }
        Ok(Err(error)) => return Err(CommitError::Unknown(Box::new(error))),
        Err(_) => return Err(CommitError::Unknown(silence(budget))),
    }
    session.settled = session.settled.or(settle);
    Ok((!notes.tainted).then_some(lease))
}

/// What closes the transaction in one trip with the opening of another, if it can be.
///
/// The driver's depth is read before that trip, so nothing that changes it may be on its way:
/// the rollback of a dropped savepoint. Nor may a statement, whose late error would be taken
/// for the guard's. COMMIT AND CHAIN takes isolation and READ ONLY over, so what the handler
/// set for the transaction rules it out as well.
pub(super) fn chain_of<DB: Dialect>(tx: &Tx<DB>, next: &Terms) -> Option<Chain> {
    let Tx { lease: Lease { session, .. }, terms, notes } = tx;
    let chains = terms.isolation == next.isolation
        && notes.disturbed().is_none()
        && !notes.parted
        && depth::<DB>(&session.conn) == 1;
    match session.settled {
        _ if !chains => None,
        Some(timeout) if timeout == next.timeout => session.chain.clone(),
        _ => DB::chain(&session.guard, &session.mark, Some(next.timeout)),
    }
}

/// Commits and begins in one trip. Whatever fails closes the connection: the driver still
/// counts one transaction when the server may be in none, and the next claim would be written
/// by itself, without its effects. Which statement failed says what that means. Gives the rows
/// that its statements wrote.
pub(super) async fn chain<DB: Dialect>(
    tx: Tx<DB>,
    chain: Chain,
    budget: Duration,
    next: Terms,
) -> Result<Option<(Tx<DB>, u64)>, CommitError> {
    let budget = budget.max(LEAST);
    let Tx { mut lease, notes, .. } = tx;
    let session = &mut lease.session;
    let mut ends = Vec::with_capacity(chain.all);
    DB::permit(&session.guard, true);
    let answer = timeout(budget, DB::count(&mut session.conn, chain.sql, &mut ends)).await;
    DB::permit(&session.guard, false);
    let done = ends.len();
    match answer {
        Ok(Ok(())) if done == chain.all => {
            session.settled = Some(next.timeout);
            Ok(Some((Tx::new(lease, next), ends.iter().sum())))
        }
        _ if done > chain.before => Ok(None),
        // One that ends the session proves nothing, wherever it comes: a proxy that lost the
        // server says it in the server's place.
        Ok(Err(Error::Database(error))) if DB::proves_rollback(&*error) => {
            let error = Error::Database(error);
            if done == chain.before {
                return Err(CommitError::Refused(StoreError::driver::<DB>(COMMITTING, error)));
            }
            Err(diagnose(lease, notes, error).await)
        }
        Ok(Err(error)) => Err(CommitError::Unknown(Box::new(error))),
        Ok(Ok(())) => Err(CommitError::Unknown("the answer ended before that to COMMIT".into())),
        Err(_) => Err(CommitError::Unknown(silence(budget))),
    }
}

fn silence(budget: Duration) -> crate::error::BoxError {
    format!("nothing within {budget:?}").into()
}

/// What a transaction is told that cannot go on after a cut.
fn was_cut<DB>(notes: Notes<DB>) -> CommitError {
    match notes.first_error {
        first @ Some(_) => CommitError::Swallowed { first },
        None => CommitError::Refused(StoreError::lasting(CLOSING, CUT)),
    }
}

/// Why the guard's savepoint could not be released. Nothing was committed, whatever it is.
async fn diagnose<DB: Dialect>(mut lease: Lease<DB>, mut notes: Notes<DB>, error: Error) -> CommitError {
    notes.see(&error);
    let broken = match &error {
        Error::Database(error) => DB::broken(&**error),
        _ => Broken::Lost,
    };
    let is_gone = match broken {
        Broken::Lost => {
            return CommitError::Refused(StoreError {
                doing: CLOSING,
                fault: fault::of::<DB>(&error),
                source: Box::new(error),
            });
        }
        Broken::Gone => true,
        // Aborted, but is it ours? A handler may have ended ours and failed in one of its own.
        Broken::Aborted | Broken::Earlier => matches!(
            timeout(ROLLBACK, undo::<DB>(&mut lease)).await,
            Ok(Err(Error::Database(error))) if DB::broken(&*error) == Broken::Gone
        ),
    };
    if is_gone { gone(notes) } else { CommitError::Swallowed { first: notes.first_error } }
}

/// Why the transaction that was opened is not there any more.
fn gone<DB: Dialect>(notes: Notes<DB>) -> CommitError {
    if notes.ended_by_handler() {
        CommitError::EndedByHandler
    } else {
        CommitError::Swallowed { first: notes.first_error }
    }
}
