//! Spans, metrics and log lines of attempts, and the verdict on each.

use std::time::Instant;

use tracing::Span;

use super::execute::prepare;
use super::outcome::Outcome;
use super::probe::Point;
use super::settle::{Standing, Verdict, judge};
use super::{Engine, Routed};
use crate::error::{Error, Reason, Rejection};
use crate::job::Spec;
use crate::message::{EVENT_HEADER, Message};
use crate::store::{Fault, Store};
use crate::telemetry;

/// The span of one attempt at a message.
pub(super) fn span(spec: &Spec, message: &Message, standing: Standing) -> Span {
    let at = &message.coordinates;
    tracing::info_span!(
        "job",
        job = spec.name,
        topic = spec.topic,
        partition = at.partition,
        offset = at.offset,
        attempt = standing.failures + 1,
        key_hash = tracing::field::Empty,
        outcome = tracing::field::Empty,
    )
}

/// The span of a batch job's handler, which has many messages.
pub(super) fn batch_span(spec: &Spec, messages: usize) -> Span {
    tracing::info_span!("batch", job = spec.name, topic = spec.topic, messages)
}

/// The span of a dead letter that is run again.
pub(super) fn redrive_span(spec: &Spec, letter: i64) -> Span {
    tracing::info_span!("redrive", job = spec.name, topic = spec.topic, letter, outcome = tracing::field::Empty)
}

impl<S: Store> Engine<S> {
    /// Judges an outcome and tells of it, within the span of its attempt.
    pub(super) fn tell(
        &self,
        job: &Routed<S>,
        message: &Message,
        outcome: Outcome,
        standing: Standing,
        began: Instant,
    ) -> Verdict {
        let spec = job.spec();
        let verdict = judge(&outcome, spec, standing, rand::random());
        let word = word(&outcome, &verdict);
        Span::current().record("outcome", word);
        metrics::counter!(telemetry::OUTCOMES, "job" => spec.name, "topic" => spec.topic, "outcome" => word)
            .increment(1);
        metrics::histogram!(telemetry::ATTEMPT_SECONDS, "job" => spec.name, "topic" => spec.topic, "outcome" => word)
            .record(began.elapsed());
        report(&outcome, &verdict);
        let stumbled = matches!(&outcome, Outcome::Failed(failure) if failure.fault == Fault::Transient);
        self.health.attempted(stumbled);
        match outcome {
            Outcome::Done | Outcome::Discarded(_) => self.probe.reached(Point::Committed, &message.coordinates),
            Outcome::Duplicate | Outcome::Unverified | Outcome::DeadBefore => {
                self.probe.reached(Point::Skipped, &message.coordinates);
            }
            Outcome::Parked => self.probe.reached(Point::Buried, &message.coordinates),
            Outcome::Failed(_) | Outcome::Dead(_) | Outcome::Snoozed(_) | Outcome::Crowded => {}
        }
        verdict
    }

    /// The message cannot be processed: everything stops before its offset.
    pub(super) fn give_up(&self, message: &Message, job: Option<&Routed<S>>, Rejection { reason, detail }: Rejection) {
        let none = || "-".to_owned();
        // What kills by being read is not read again.
        let readable = job.filter(|_| reason != Reason::KilledProcess);
        let key = readable.and_then(|job| prepare(job, message).ok()).map_or_else(none, |prepared| prepared.key.hash());
        let job = job.map_or_else(none, |job| job.spec().name.to_owned());
        self.fail(Error::Stopped { at: message.coordinates.clone(), job, key, reason, detail });
    }
}

/// The word for metrics and spans. What is skipped by request goes by the rule it broke.
fn word(outcome: &Outcome, verdict: &Verdict) -> &'static str {
    match (outcome, verdict) {
        (_, Verdict::Bury(_) | Verdict::Stop(_)) => "dead",
        (Outcome::Dead(rejection), _) => rejection.reason.as_str(),
        _ => outcome.as_str(),
    }
}

fn report(outcome: &Outcome, verdict: &Verdict) {
    match outcome {
        Outcome::Done => tracing::debug!("done"),
        Outcome::Duplicate => tracing::debug!("a duplicate was skipped"),
        Outcome::DeadBefore => tracing::debug!("a message that is a dead letter was skipped"),
        Outcome::Parked => tracing::debug!("waits behind a dead letter of its lane"),
        Outcome::Crowded => tracing::debug!("waits, since its lane has no room"),
        Outcome::Discarded(why) => tracing::info!(why, "discarded by its handler: done without effect"),
        Outcome::Snoozed(wait) => tracing::debug!(?wait, "snoozed by its handler"),
        Outcome::Unverified => tracing::warn!(
            "a message of a used key was skipped unverified: the first one was recorded under another `compare`"
        ),
        Outcome::Failed(failure) => match verdict {
            Verdict::Again(_, wait) => tracing::warn!(error = %failure.detail, ?wait, "the attempt failed; made again"),
            _ => tracing::error!(error = %failure.detail, "the last attempt failed"),
        },
        Outcome::Dead(rejection) if matches!(verdict, Verdict::Settled) => {
            tracing::warn!(reason = %rejection.reason, error = %rejection.detail, "cannot be processed, and is skipped as declared");
        }
        Outcome::Dead(rejection) => {
            tracing::error!(reason = %rejection.reason, error = %rejection.detail, "cannot be processed")
        }
    }
}

pub(super) fn unknown_event(message: &Message) -> Rejection {
    let event = message.headers.get(EVENT_HEADER).map(String::from_utf8_lossy);
    let detail = match event {
        Some(event) => format!(
            "no job of this topic takes the event `{}`: deploy one first, or declare a job without `event`",
            event.chars().take(100).collect::<String>()
        ),
        None => "the message has no `event` header and every job of this topic takes one event only".to_owned(),
    };
    Rejection::new(Reason::UnknownEvent, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::settle::Death;
    use crate::error::Reason;

    #[test]
    fn each_end_of_a_message_that_cannot_be_processed_has_its_word() {
        let rejection = || Rejection::new(Reason::Conflict, "why");
        let bury = Verdict::Bury(Death { rejection: rejection(), attempts: 0 });
        for (outcome, verdict, expected) in [
            (Outcome::Dead(rejection()), bury, "dead"),
            (Outcome::Dead(rejection()), Verdict::Stop(rejection()), "dead"),
            (Outcome::Dead(rejection()), Verdict::Settled, "conflict"),
            (Outcome::DeadBefore, Verdict::Settled, "dead_before"),
            (Outcome::Discarded("why".to_owned()), Verdict::Settled, "discarded"),
        ] {
            assert_eq!(word(&outcome, &verdict), expected);
        }
    }
}
