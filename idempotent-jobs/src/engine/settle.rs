//! Acts on an outcome: go on, try again later, or give the message up. Pure.

use std::time::Duration;

use super::outcome::{Failure, Outcome};
use crate::error::{Fate, Reason, Rejection};
use crate::job::Spec;
use crate::store::Fault;

/// How one job stands to one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Attempts that failed and count.
    pub failures: u32,
    /// Attempts in a row that failed for transient reasons.
    pub stumbles: u32,
}

/// What happens next.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Settled: the offset may move.
    Settled,
    /// Another attempt after this wait.
    Again(Standing, Duration),
    /// Given up: it is written as a dead letter, and then settled.
    Bury(Death),
    /// Given up: the worker stops.
    Stop(Rejection),
}

/// A message that is given up.
#[derive(Debug, Clone)]
pub(super) struct Death {
    /// Why.
    pub rejection: Rejection,
    /// How often its handler was entered and failed.
    pub attempts: u32,
}

/// How long transient trouble is waited for at most, so that work goes on soon after an outage.
const LONGEST_STUMBLE: Duration = Duration::from_secs(5);

/// How long a message whose lane is full waits before it looks again, and at most as long again.
const CROWDED: Duration = Duration::from_secs(2);

/// Decides what follows from `outcome`; `random` in 0..1 spreads the waits.
pub(super) fn judge(outcome: &Outcome, spec: &Spec, standing: Standing, random: f64) -> Verdict {
    match outcome {
        Outcome::Done
        | Outcome::Duplicate
        | Outcome::Unverified
        | Outcome::DeadBefore
        | Outcome::Parked
        | Outcome::Discarded(_) => Verdict::Settled,
        Outcome::Crowded => {
            Verdict::Again(Standing { stumbles: 0, ..standing }, CROWDED + CROWDED.mul_f64(random.clamp(0.0, 1.0)))
        }
        Outcome::Snoozed(wait) => Verdict::Again(Standing { stumbles: 0, ..standing }, *wait),
        Outcome::Dead(rejection) => {
            give_up(rejection.clone(), spec, standing.failures + u32::from(rejection.reason.was_entered()))
        }
        Outcome::Failed(failure) if failure.fault == Fault::Transient => {
            let (standing, wait) = stumble(Some(spec), standing, random);
            Verdict::Again(standing, wait)
        }
        Outcome::Failed(failure) => failed(failure, spec, standing, random),
    }
}

fn failed(failure: &Failure, spec: &Spec, standing: Standing, random: f64) -> Verdict {
    let failures = standing.failures.saturating_add(1);
    if failures > spec.retries {
        let detail = match failure.reason {
            Reason::Exhausted => format!("all {failures} attempt(s) failed, the last with: {}", failure.detail),
            _ => failure.detail.clone(),
        };
        return give_up(Rejection::new(failure.reason, detail), spec, failures);
    }
    Verdict::Again(Standing { failures, stumbles: 0 }, spec.backoff.delay(failures, random))
}

/// Processes that died in a message that ran with nothing beside it, before it is given up.
pub(super) const KILLS: u32 = 3;

/// What a message is told that killed its process so often.
pub(super) fn kills(deaths: u32) -> Rejection {
    let detail = format!(
        "{deaths} processes died in a row while this message ran: look for an abort, a stack overflow or too much \
         memory in its handler, or in reading it"
    );
    Rejection::new(Reason::KilledProcess, detail)
}

/// What follows for it.
pub(super) fn killed(spec: &Spec, standing: Standing, deaths: u32) -> Verdict {
    give_up(kills(deaths), spec, standing.failures.saturating_add(deaths))
}

fn give_up(rejection: Rejection, spec: &Spec, attempts: u32) -> Verdict {
    match spec.fates.of(rejection.reason) {
        Fate::DeadLetter => Verdict::Bury(Death { rejection, attempts }),
        Fate::Skip => Verdict::Settled,
        Fate::Stop => Verdict::Stop(rejection),
    }
}

/// The wait after so many failures in a row to write a dead letter.
pub(super) fn stumble(spec: Option<&Spec>, standing: Standing, random: f64) -> (Standing, Duration) {
    let standing = Standing { stumbles: standing.stumbles.saturating_add(1), ..standing };
    let backoff = spec.map(|spec| spec.backoff).unwrap_or_default();
    (standing, backoff.delay(standing.stumbles, random).min(LONGEST_STUMBLE))
}

#[cfg(test)]
mod tests;
