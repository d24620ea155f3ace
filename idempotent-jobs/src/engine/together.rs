//! Many messages of one job in one transaction: one claim statement, their handlers in order,
//! one guard, one commit.
//!
//! Invariant: every claim of a transaction that commits is one whose message's handler returned
//! `Ok` in it. So whatever goes wrong, all of it is undone, and nobody is singled out here: a
//! failure may be another message's doing.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span};

use super::desk::Desk;
use super::execute::{limit, prepare};
use super::lanes::Task;
use super::outcome::{Failure, Outcome, panicked};
use super::probe::Point;
use super::{Engine, Progress, Routed, report, terms};
use crate::error::{JobError, Rejection};
use crate::job::{Grouping, Prepared};
use crate::store::{Claim, Claimed, Fault, Store};
use crate::trace;

/// Why nothing of a transaction is stored: its messages are to be run one by one.
#[derive(Debug)]
pub(super) enum Undone {
    /// Something failed, of one of them or of all.
    Failed(String),
    /// It took longer than the timeout, whose length this is.
    Slow(Duration),
    /// The handler did what its neighbours would see.
    Disturbed(&'static str),
    /// One of them is a dead letter, behind which others may have to wait.
    Parked,
}

/// What a message is to the transaction.
enum Part {
    /// It is claimed and run.
    Runs(Prepared),
    /// It says the same as an earlier one of the transaction, whose fate it shares.
    TwinOf(usize),
    /// It cannot be read.
    Refused(Rejection),
    /// It is behind one that is not run, or contradicts one that is: it waits for that.
    Waits,
}

/// A message of the transaction, and the span of its attempt.
pub(super) struct Member<'a> {
    pub task: &'a Task<Progress>,
    pub span: Span,
}

/// What became of each message that was run.
type Outcomes = Vec<Option<Outcome>>;

/// Runs messages of one job in one transaction.
pub(super) async fn together<S: Store>(
    engine: &Engine<S>,
    desk: &mut Desk<S>,
    job: &Routed<S>,
    members: &[Member<'_>],
) -> Result<Outcomes, Undone> {
    let spec = job.spec();
    let ends = Instant::now() + spec.timeout;
    let mut parts = sort::<S>(job, members);
    let (mut tx, claimed) = match claim(engine, desk, job, members, &mut parts, ends).await {
        Ok(claimed) => claimed,
        Err(early) => return early,
    };
    let ends = ends.max(limit::<S>(&tx, spec));
    let (mut outcomes, fresh) = take_fresh(&mut parts, claimed);
    if fresh.is_empty() {
        desk.keep(engine, tx, terms(spec)).await;
        return Ok(finish(&parts, outcomes));
    }
    for (index, _) in &fresh {
        engine.probe.reached(Point::Claimed, &members[*index].task.message.coordinates);
        outcomes[*index] = Some(Outcome::Done);
    }

    let entered = AssertUnwindSafe(enter(engine, job, &mut tx, members, fresh)).catch_unwind();
    match timeout_at(ends, entered).await {
        Ok(Ok(Ok(()))) if Instant::now() < ends => {}
        Ok(Ok(Err(undone))) => {
            engine.store.rollback(tx).await;
            return Err(undone);
        }
        // Dropped with its connection: whatever ran of it is undone there.
        Ok(Err(panic)) => return Err(Undone::Failed(panicked(&*panic))),
        Ok(Ok(Ok(()))) | Err(_) => return Err(Undone::Slow(spec.timeout)),
    }
    let left = ends.saturating_duration_since(Instant::now());
    match desk.commit(engine, tx, left).await {
        Ok(()) => Ok(finish(&parts, outcomes)),
        Err(error) => Err(Undone::Failed(error.to_string())),
    }
}

/// Begins, and claims what is to run. An error is all there is to say of the transaction.
async fn claim<S: Store>(
    engine: &Engine<S>,
    desk: &mut Desk<S>,
    job: &Routed<S>,
    members: &[Member<'_>],
    parts: &mut [Part],
    ends: Instant,
) -> Result<(S::Tx, Vec<Claimed>), Result<Outcomes, Undone>> {
    let spec = job.spec();
    let claims: Vec<Claim<'_>> = parts
        .iter()
        .zip(members)
        .filter_map(|(part, member)| match part {
            Part::Runs(prepared) => Some(engine.claim(spec, prepared, &member.task.message)),
            _ => None,
        })
        .collect();
    let begun = desk.begin(engine, terms(spec)).await;
    let mut tx = begun.map_err(|error| Ok(all_failed(parts, &error.to_string())))?;
    let ends = ends.max(limit::<S>(&tx, spec));
    let claimed = match timeout_at(ends, engine.store.claim_all(&mut tx, &claims)).await {
        Ok(Ok(claimed)) => claimed,
        Ok(Err(error)) => {
            engine.store.rollback(tx).await;
            return Err(match error.fault {
                Fault::Transient => Ok(all_failed(parts, &error.to_string())),
                Fault::Lasting => Err(Undone::Failed(error.to_string())),
            });
        }
        Err(_) => return Err(Ok(all_failed(parts, "the claims had no answer in time; their connection is closed"))),
    };
    if claimed.iter().any(|claimed| matches!(claimed, Claimed::Conflict { .. })) {
        engine.store.rollback(tx).await;
        return Err(Err(Undone::Failed("one of its keys was used with other content".to_owned())));
    }
    // Whoever is behind it here has claimed already, and may not run.
    if spec.park.is_some() && claimed.contains(&Claimed::Dead) {
        engine.store.rollback(tx).await;
        return Err(Err(Undone::Parked));
    }
    Ok((tx, claimed))
}

/// Reads all messages, and finds out which can be in one transaction.
fn sort<S: Store>(job: &Routed<S>, members: &[Member<'_>]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(members.len());
    let mut first: HashMap<String, usize> = HashMap::with_capacity(members.len());
    for (index, member) in members.iter().enumerate() {
        let held = index > 0
            && members[index - 1].task.is_beside(member.task)
            && matches!(parts[index - 1], Part::Refused(_) | Part::Waits);
        if held {
            parts.push(Part::Waits);
            continue;
        }
        let prepared = prepare(job, &member.task.message);
        if let Ok(prepared) = &prepared
            && !member.span.is_disabled()
        {
            member.span.record("key_hash", prepared.key.hash());
        }
        parts.push(match prepared {
            Err(rejection) => Part::Refused(rejection),
            Ok(prepared) => match first.get(prepared.key.as_str()) {
                None => {
                    first.insert(prepared.key.as_str().to_owned(), index);
                    Part::Runs(prepared)
                }
                Some(of) => match &parts[*of] {
                    Part::Runs(earlier) if earlier.fingerprint == prepared.fingerprint => Part::TwinOf(*of),
                    _ => Part::Waits,
                },
            },
        });
    }
    parts
}

/// Parts the claims by what they found: what is known already, and whose keys were free.
fn take_fresh(parts: &mut [Part], claimed: Vec<Claimed>) -> (Outcomes, Vec<(usize, Prepared)>) {
    let mut claimed = claimed.into_iter();
    let mut outcomes = Vec::with_capacity(parts.len());
    let mut fresh = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter_mut().enumerate() {
        let Part::Runs(_) = part else {
            outcomes.push(None);
            continue;
        };
        match claimed.next().expect("every message that runs has a claim, and every claim an answer") {
            Claimed::Fresh => {
                // It is run once, and its twins need to know only where it was.
                if let Part::Runs(prepared) = std::mem::replace(part, Part::Waits) {
                    fresh.push((index, prepared));
                }
                outcomes.push(None);
            }
            seen => outcomes.push(Some(Outcome::seen(seen))),
        }
    }
    (outcomes, fresh)
}

/// Enters the handler, for each message or for all at once.
async fn enter<S: Store>(
    engine: &Engine<S>,
    job: &Routed<S>,
    tx: &mut S::Tx,
    members: &[Member<'_>],
    fresh: Vec<(usize, Prepared)>,
) -> Result<(), Undone> {
    // One that failed before runs alone: for all of these it is the first attempt.
    const ATTEMPT: u32 = 1;
    let failed = |error: JobError| Undone::Failed(S::describe(error.source()));
    if let Grouping::Batch(_) = job.spec().grouping {
        let at: Vec<usize> = fresh.iter().map(|(index, _)| *index).collect();
        let (payloads, contexts) = fresh
            .into_iter()
            .map(|(index, Prepared { key, payload, .. })| {
                (payload, engine.context(job.spec(), &members[index].task.message, key, ATTEMPT))
            })
            .unzip();
        let span = report::batch_span(job.spec(), at.len());
        job.run_batch(tx, payloads, contexts).instrument(span).await.map_err(failed)?;
        for index in at {
            engine.probe.reached(Point::Handled, &members[index].task.message.coordinates);
        }
        return Ok(());
    }
    for (index, Prepared { key, payload, .. }) in fresh {
        let Member { task, span } = &members[index];
        let message = &task.message;
        let context = engine.context(job.spec(), message, key, ATTEMPT);
        let running = trace::within(&message.headers, job.run(tx, payload, &context));
        running.instrument(span.clone()).await.map_err(failed)?;
        engine.probe.reached(Point::Handled, &message.coordinates);
        if let Some(why) = S::disturbed(tx) {
            return Err(Undone::Disturbed(why));
        }
    }
    Ok(())
}

/// The outcomes with those of the twins, and of what cannot be read.
fn finish(parts: &[Part], mut outcomes: Outcomes) -> Outcomes {
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::TwinOf(of) => {
                outcomes[index] = match outcomes[*of] {
                    Some(Outcome::Unverified) => Some(Outcome::Unverified),
                    Some(Outcome::DeadBefore) => Some(Outcome::DeadBefore),
                    _ => Some(Outcome::Duplicate),
                };
            }
            Part::Refused(rejection) => outcomes[index] = Some(Outcome::Dead(rejection.clone())),
            Part::Runs(_) | Part::Waits => {}
        }
    }
    outcomes
}

/// Trouble of the database before any handler ran: no message is to blame.
fn all_failed(parts: &[Part], error: &str) -> Outcomes {
    let failed = |part: &Part| match part {
        Part::Runs(_) => Some(Outcome::from(Failure::transient(error))),
        Part::Refused(rejection) => Some(Outcome::Dead(rejection.clone())),
        Part::TwinOf(_) | Part::Waits => None,
    };
    parts.iter().map(failed).collect()
}
