//! Spans, metrics and log lines of attempts, and the verdict on each.

use std::sync::Arc;
use std::time::Instant;

use tracing::Span;

use super::execute::prepare;
use super::lanes::Task;
use super::outcome::Outcome;
use super::probe::Point;
use super::settle::{Standing, Verdict, judge};
use super::{Engine, Progress, Routed};
use crate::error::{Error, Reason, Rejection};
use crate::job::Spec;
use crate::message::{EVENT_HEADER, Message};
use crate::store::Store;
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
        let word = if matches!(verdict, Verdict::GiveUp(_)) { "dead" } else { outcome.as_str() };
        Span::current().record("outcome", word);
        metrics::counter!(telemetry::OUTCOMES, "job" => spec.name, "topic" => spec.topic, "outcome" => word)
            .increment(1);
        metrics::histogram!(telemetry::ATTEMPT_SECONDS, "job" => spec.name, "topic" => spec.topic, "outcome" => word)
            .record(began.elapsed());
        report(&outcome, &verdict);
        match outcome {
            Outcome::Done => self.probe.reached(Point::Committed, &message.coordinates),
            Outcome::Duplicate | Outcome::Unverified => self.probe.reached(Point::Skipped, &message.coordinates),
            Outcome::Failed(_) | Outcome::Dead(_) => {}
        }
        verdict
    }

    /// Messages that no job takes: the first of them stops everything.
    pub(super) fn refuse(&self, mut tasks: Vec<Task<Progress>>) {
        let first = tasks.remove(0);
        let message = Arc::clone(&first.message);
        self.halt(first, tasks);
        self.give_up(&message, None, unknown_event(&message));
    }

    /// The message cannot be processed: everything stops before its offset.
    pub(super) fn give_up(&self, message: &Message, job: Option<&Routed<S>>, Rejection { reason, detail }: Rejection) {
        let none = || "-".to_owned();
        let key = job.and_then(|job| prepare(job, message).ok()).map_or_else(none, |prepared| prepared.key.hash());
        let job = job.map_or_else(none, |job| job.spec().name.to_owned());
        self.fail(Error::Stopped { at: message.coordinates.clone(), job, key, reason, detail });
    }
}

fn report(outcome: &Outcome, verdict: &Verdict) {
    match outcome {
        Outcome::Done => tracing::debug!("done"),
        Outcome::Duplicate => tracing::debug!("a duplicate was skipped"),
        Outcome::Unverified => tracing::warn!(
            "a message of a used key was skipped unverified: the first one was recorded under another `compare`"
        ),
        Outcome::Failed(failure) => match verdict {
            Verdict::Again(_, wait) => tracing::warn!(error = %failure.detail, ?wait, "the attempt failed; made again"),
            _ => tracing::error!(error = %failure.detail, "the last attempt failed"),
        },
        Outcome::Dead(rejection) => {
            tracing::error!(reason = %rejection.reason, error = %rejection.detail, "cannot be processed")
        }
    }
}

fn unknown_event(message: &Message) -> Rejection {
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
