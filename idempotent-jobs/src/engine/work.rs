//! A worker: takes the head of a lane, passes it through its jobs, settles it.

use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument;

use super::execute::{attempt, prepare};
use super::lanes::{Next, Task};
use super::outcome::Outcome;
use super::probe::Point;
use super::settle::{Standing, Verdict, judge};
use super::{Engine, Progress, Routed};
use crate::error::{Error, Reason, Rejection};
use crate::message::{EVENT_HEADER, Message};
use crate::store::Store;
use crate::telemetry;

/// Works until the engine stops.
pub(crate) async fn work<S: Store>(engine: Arc<Engine<S>>) {
    while let Some(task) = engine.next().await {
        engine.pass(task).await;
        engine.rest.notify_all();
    }
}

impl<S: Store> Engine<S> {
    /// The next message to run; `None` once the engine stops.
    async fn next(&self) -> Option<Task<Progress>> {
        loop {
            let woken = self.work.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if *self.stopping.borrow() {
                return None;
            }
            let next = self.lanes().take(Instant::now());
            match next {
                Next::Task(task) => return Some(task),
                Next::Until(due) => tokio::select! {
                    () = woken => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                },
                Next::Idle => woken.await,
            }
        }
    }

    /// Gives the message to every job that has not settled it yet.
    async fn pass(&self, mut task: Task<Progress>) {
        let mut open = match task.progress.0.take() {
            Some(open) => open,
            None => self.route(&task.message),
        };
        if open.is_empty() {
            return self.give_up(&task, None, unknown_event(&task.message));
        }
        let mut left = Vec::new();
        for (index, standing, due) in open.drain(..) {
            if due.is_some_and(|due| due > Instant::now()) {
                left.push((index, standing, due));
                continue;
            }
            let job = &self.jobs[index];
            match self.run(job, &task.message, standing).await {
                Verdict::Settled => {}
                Verdict::Again(standing, wait) => left.push((index, standing, Some(Instant::now() + wait))),
                Verdict::GiveUp(rejection) => return self.give_up(&task, Some(job), rejection),
            }
        }
        let earliest = left.iter().filter_map(|(_, _, due)| *due).min();
        match earliest {
            None => drop(self.lanes().settle(&task)),
            Some(due) => {
                task.progress.0 = Some(left);
                self.lanes().retry(task, due);
            }
        }
    }

    /// The jobs of the message's topic that take its event.
    fn route(&self, message: &Message) -> Vec<(usize, Standing, Option<Instant>)> {
        let event = message.headers.get(EVENT_HEADER);
        let takes = |job: &Routed<S>| {
            let spec = job.spec();
            *spec.topic == *message.coordinates.topic && spec.event.is_none_or(|takes| Some(takes.as_bytes()) == event)
        };
        let jobs = self.jobs.iter().enumerate().filter(|(_, job)| takes(job));
        jobs.map(|(index, _)| (index, Standing::default(), None)).collect()
    }

    /// One attempt, watched.
    async fn run(&self, job: &Routed<S>, message: &Arc<Message>, standing: Standing) -> Verdict {
        let spec = job.spec();
        let at = &message.coordinates;
        let number = standing.failures + 1;
        let span = tracing::info_span!(
            "job",
            job = spec.name,
            topic = spec.topic,
            partition = at.partition,
            offset = at.offset,
            attempt = number,
            key_hash = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        let began = Instant::now();
        let outcome = attempt(self, job, message, number).instrument(span.clone()).await;
        let verdict = judge(&outcome, spec, standing, rand::random());
        let word = if matches!(verdict, Verdict::GiveUp(_)) { "dead" } else { outcome.as_str() };
        span.record("outcome", word);
        metrics::counter!(telemetry::OUTCOMES, "job" => spec.name, "topic" => spec.topic, "outcome" => word)
            .increment(1);
        metrics::histogram!(telemetry::ATTEMPT_SECONDS, "job" => spec.name, "topic" => spec.topic, "outcome" => word)
            .record(began.elapsed());
        span.in_scope(|| report(&outcome, &verdict));
        match outcome {
            Outcome::Done => self.probe.reached(Point::Committed, at),
            Outcome::Duplicate | Outcome::Unverified => self.probe.reached(Point::Skipped, at),
            Outcome::Failed(_) | Outcome::Dead(_) => {}
        }
        verdict
    }

    /// The message cannot be processed: everything stops before its offset.
    fn give_up(&self, task: &Task<Progress>, job: Option<&Routed<S>>, Rejection { reason, detail }: Rejection) {
        self.lanes().halt(task);
        let none = || "-".to_owned();
        let key =
            job.and_then(|job| prepare(job, &task.message).ok()).map_or_else(none, |prepared| prepared.key.hash());
        let job = job.map_or_else(none, |job| job.spec().name.to_owned());
        self.fail(Error::Stopped { at: task.message.coordinates.clone(), job, key, reason, detail });
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
