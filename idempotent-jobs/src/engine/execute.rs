//! One message, one job, one transaction. The library's promise, top to bottom.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};

use super::desk::Desk;
use super::discard::discard;
use super::outcome::{Failure, Outcome, panicked};
use super::probe::Point;
use super::{Engine, Routed, terms};
use crate::context::Context;
use crate::error::{JobError, Reason, Rejection};
use crate::fingerprint::Fingerprint;
use crate::job::{Job, Payload, Prepared, Spec};
use crate::key::Key;
use crate::message::Message;
use crate::store::{Claim, Claimed, CommitError, Rolled, Store};
use crate::trace;

/// Runs one attempt: decode, claim, handler, guard, commit.
///
/// Whatever ends it early, the claim goes with the effects: both are in one transaction, and
/// a transaction that is not seen to commit is rolled back or left to the claim of the
/// next delivery.
pub(super) async fn attempt<S: Store>(
    engine: &Engine<S>,
    desk: &mut Desk<S>,
    job: &Routed<S>,
    message: &Arc<Message>,
    attempt: u32,
    kept: bool,
) -> Outcome {
    let spec = job.spec();
    let ends = Instant::now() + spec.timeout;
    let (mut tx, prepared, claimed) = match desk.claimed(job, message) {
        Some((tx, prepared)) => {
            note(&prepared);
            (tx, prepared, Claimed::Fresh)
        }
        None => match claim(engine, desk, job, message, ends).await {
            Ok(claimed) => claimed,
            Err(outcome) => return outcome,
        },
    };
    if claimed != Claimed::Fresh {
        desk.keep(engine, tx, terms(spec)).await;
        return Outcome::seen(claimed);
    }
    engine.probe.reached(Point::Claimed, &message.coordinates);

    let ends = ends.max(limit::<S>(&tx, spec));
    let fingerprint = prepared.fingerprint;
    if kept && let Err(failure) = forget(engine, &mut tx, engine.claim(spec, &prepared, message), ends).await {
        engine.store.rollback(tx).await;
        return failure.into();
    }
    let context = engine.context(spec, message, prepared.key, attempt);
    match enter::<S>(job, tx, prepared.payload, &context, ends).await {
        Left::Done(tx) => {
            engine.probe.reached(Point::Handled, &message.coordinates);
            let left = ends.saturating_duration_since(Instant::now());
            desk.commit(engine, tx, left).await.map_or_else(Outcome::uncommitted, |()| Outcome::Done)
        }
        Left::Failed(tx, error) if error.is_discard() => {
            let claim = engine.claim_of(spec, &context.key, fingerprint, message);
            discard(engine, desk, tx, terms(spec), claim, kept, &error).await
        }
        Left::Failed(tx, error) => refused(engine, tx, error).await,
        Left::Lost(failure) => failure.into(),
    }
}

/// When an attempt has to be over: its time does not run while it waits for a connection.
pub(super) fn limit<S: Store>(tx: &S::Tx, spec: &Spec) -> Instant {
    Instant::from_std(S::since(tx)) + spec.timeout
}

/// What was noted of earlier attempts goes with the claim; whoever asks meanwhile finds it held.
pub(super) async fn forget<S: Store>(
    engine: &Engine<S>,
    tx: &mut S::Tx,
    claim: Claim<'_>,
    ends: Instant,
) -> Result<(), Failure> {
    match timeout_at(ends, engine.store.forget(tx, claim)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::transient(error.to_string())),
        Err(_) => Err(Failure::transient("what was noted of earlier attempts could not be deleted in time")),
    }
}

/// How a handler left the transaction it was lent.
pub(super) enum Left<Tx> {
    /// It returned `Ok` in time.
    Done(Tx),
    /// It returned an error.
    Failed(Tx, JobError),
    /// It panicked or took too long: its future is dropped, and with the handle its connection,
    /// never pooled.
    Lost(Failure),
}

/// Enters the handler.
pub(super) async fn enter<S: Store>(
    job: &Routed<S>,
    mut tx: S::Tx,
    payload: Payload,
    context: &Context,
    ends: Instant,
) -> Left<S::Tx> {
    let timeout = job.spec().timeout;
    let running = trace::within(&context.message.headers, job.run(&mut tx, payload, context));
    let running = AssertUnwindSafe(running).catch_unwind();
    match timeout_at(ends, running).await {
        // A handler that blocked its thread could not be stopped in time.
        Ok(Ok(Ok(()))) if Instant::now() >= ends => {
            Left::Lost(Failure::lasting(format!("the handler blocked its thread beyond the timeout of {timeout:?}")))
        }
        Ok(Ok(Ok(()))) => Left::Done(tx),
        Ok(Ok(Err(error))) => Left::Failed(tx, error),
        Ok(Err(panic)) => Left::Lost(Failure::lasting(panicked(&*panic))),
        Err(_) => Left::Lost(Failure::lasting(format!("no answer within the timeout of {timeout:?}"))),
    }
}

/// Rolls back what a handler did that returned an error.
pub(super) async fn refused<S: Store>(engine: &Engine<S>, tx: S::Tx, error: JobError) -> Outcome {
    let refused = Outcome::refused::<S>(error, S::first_error(&tx));
    match engine.store.rollback(tx).await {
        Rolled::Back => refused,
        Rolled::EndedByHandler => Outcome::uncommitted(CommitError::EndedByHandler),
    }
}

/// Decodes, begins, claims. An error ends the attempt.
async fn claim<S: Store>(
    engine: &Engine<S>,
    desk: &mut Desk<S>,
    job: &Routed<S>,
    message: &Arc<Message>,
    ends: Instant,
) -> Result<(S::Tx, Prepared, Claimed), Outcome> {
    let spec = job.spec();
    let prepared = prepare(job, message).map_err(Outcome::Dead)?;
    note(&prepared);
    // No job has run yet: whatever the database says before the claim, no message is to blame.
    let left = ends.saturating_duration_since(Instant::now());
    match desk.begin_and_claim(engine, terms(spec), engine.claim(spec, &prepared, message), left).await {
        Ok((tx, claimed)) => Ok((tx, prepared, claimed)),
        Err(error) => Err(Failure::from(error).into()),
    }
}

/// The attempt's span tells whose it is.
fn note(prepared: &Prepared) {
    let span = tracing::Span::current();
    if !span.is_disabled() {
        span.record("key_hash", prepared.key.hash());
    }
}

/// Key and fingerprint alone, if the message has them.
pub(super) fn identity<H>(job: &Arc<dyn Job<H>>, message: &Message) -> Option<(Key, Fingerprint)> {
    prepare(job, message).ok().map(|prepared| (prepared.key, prepared.fingerprint))
}

/// Decodes, and computes key and fingerprint. The user's own `Deserialize` and `KeyPart` run
/// here: a panic of theirs is the message's end and not the worker's. Its text may quote the
/// payload and is left out.
pub(super) fn prepare<H>(job: &Arc<dyn Job<H>>, message: &Message) -> Result<Prepared, Rejection> {
    let prepared = catch_unwind(AssertUnwindSafe(|| job.prepare(message)));
    prepared.unwrap_or_else(|_| {
        let detail = "reading the payload panicked in its own `Deserialize` or `KeyPart`: mend that type";
        Err(Rejection::new(Reason::Decode, detail))
    })
}

#[cfg(test)]
mod tests;
