//! Acts on an outcome: go on, try again later, or give the message up. Pure.

use std::time::Duration;

use super::outcome::{Failure, Outcome};
use crate::error::{Reason, Rejection};
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
    /// Given up.
    GiveUp(Rejection),
}

/// How long transient trouble is waited for at most, so that work goes on soon after an outage.
const LONGEST_STUMBLE: Duration = Duration::from_secs(5);

/// Decides what follows from `outcome`; `random` in 0..1 spreads the waits.
pub(super) fn judge(outcome: &Outcome, spec: &Spec, standing: Standing, random: f64) -> Verdict {
    match outcome {
        Outcome::Done | Outcome::Duplicate | Outcome::Unverified => Verdict::Settled,
        Outcome::Dead(rejection) => Verdict::GiveUp(rejection.clone()),
        Outcome::Failed(failure) if failure.fault == Fault::Transient => {
            let standing = Standing { stumbles: standing.stumbles.saturating_add(1), ..standing };
            Verdict::Again(standing, spec.backoff.delay(standing.stumbles, random).min(LONGEST_STUMBLE))
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
        return Verdict::GiveUp(Rejection::new(failure.reason, detail));
    }
    Verdict::Again(Standing { failures, stumbles: 0 }, spec.backoff.delay(failures, random))
}

#[cfg(test)]
mod tests;
