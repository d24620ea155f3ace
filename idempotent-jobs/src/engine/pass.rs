//! Passes messages through their jobs.
//!
//! Invariant: a job is given the messages of a lane in their order, and none while an earlier
//! one of its lane is not settled by it.

use std::time::Instant;

use tracing::Instrument;

use super::desk::Desk;
use super::execute::attempt;
use super::lanes::{End, Group, Task};
use super::outcome::{Failure, Outcome};
use super::together::{Undone, together};
use super::{Engine, Progress, report, terms};
use crate::store::{Fault, Store};

impl<S: Store> Engine<S> {
    /// Gives the messages of a group to every job that has not settled them yet.
    pub(super) async fn pass(&self, group: Group<Progress>, desk: &mut Desk<S>) {
        let jobs = &self.classes.class(group.class).jobs;
        let mut tasks = group.tasks;
        tasks.iter_mut().for_each(|task| task.progress.open(jobs));
        for (turn, job) in jobs.iter().enumerate() {
            self.run_job(*job, &jobs[turn + 1..], &mut tasks, desk).await;
        }
        desk.then = None;
        self.conclude(tasks, false);
    }

    /// Settles what is settled, and gives the rest back to its lanes.
    pub(super) fn conclude(&self, mut tasks: Vec<Task<Progress>>, looked: bool) {
        let given_up: Vec<_> = tasks
            .iter_mut()
            .filter_map(|task| task.progress.given_up.clone().map(|why| (task.message.clone(), why)))
            .collect();
        let ends: Vec<(Task<Progress>, End)> = tasks
            .into_iter()
            .map(|task| {
                let end = task.progress.end(looked);
                (task, end)
            })
            .collect();
        let back = ends.iter().any(|(_, end)| matches!(end, End::Back(_)));
        self.lanes().conclude(ends);
        for (message, (job, rejection)) in given_up {
            self.give_up(&message, Some(&self.jobs[job]), rejection);
        }
        if back {
            self.work.notify_one();
        }
        self.rest.notify_all();
    }

    /// One job, with as many messages at a time as it takes. `later`: the jobs after it.
    async fn run_job(&self, job: usize, later: &[usize], tasks: &mut [Task<Progress>], desk: &mut Desk<S>) {
        let spec = self.jobs[job].spec();
        let mut from = 0;
        loop {
            let limit = self.paces[job].fit(spec.grouping);
            let chunk = self.chunk(job, limit, tasks, &mut from);
            if chunk.is_empty() {
                return;
            }
            let more = tasks[from..].iter().any(|task| task.progress.is_open(job));
            let next = if more { Some(job) } else { later.first().copied() };
            desk.then = next.map(|next| terms(self.jobs[next].spec()));
            if chunk.len() == 1 {
                self.run_one(job, &mut tasks[chunk[0]], desk).await;
            } else if let Err(undone) = self.run_together(job, &chunk, tasks, desk).await {
                self.paces[job].undone(spec, chunk.len(), &undone);
                self.run_each(job, &chunk, tasks, desk).await;
            }
        }
    }

    /// The next messages that the job may run now, in order; `from` moves behind the last of them.
    fn chunk(&self, job: usize, limit: usize, tasks: &[Task<Progress>], from: &mut usize) -> Vec<usize> {
        let mut chunk = Vec::new();
        if *self.stopping.borrow() || self.is_asleep() {
            return chunk;
        }
        let now = Instant::now();
        let lanes = self.lanes();
        while *from < tasks.len() && chunk.len() < limit {
            let (at, task) = (*from, &tasks[*from]);
            let waits_for = |before: &Task<Progress>| before.is_beside(task) && before.progress.is_open(job);
            let waits = at > 0 && waits_for(&tasks[at - 1]) && chunk.last() != Some(&(at - 1));
            if !waits && task.progress.is_due(job, now) && lanes.may_start(task) {
                chunk.push(at);
            }
            *from += 1;
        }
        chunk
    }

    /// One attempt in a transaction of its own.
    async fn run_one(&self, job: usize, task: &mut Task<Progress>, desk: &mut Desk<S>) -> Fault {
        let (routed, standing) = (&self.jobs[job], task.progress.standing(job));
        let span = report::span(routed.spec(), &task.message, standing);
        let began = Instant::now();
        let outcome = attempt(self, desk, routed, &task.message, standing.failures + 1).instrument(span.clone()).await;
        self.paces[job].ran(began.elapsed(), 1);
        let fault = outcome.fault();
        span.in_scope(|| self.enter(job, task, outcome, began));
        fault
    }

    /// One transaction for all of them. An error: nothing of it is stored.
    async fn run_together(
        &self,
        job: usize,
        chunk: &[usize],
        tasks: &mut [Task<Progress>],
        desk: &mut Desk<S>,
    ) -> Result<(), Undone> {
        let began = Instant::now();
        let members: Vec<&Task<Progress>> = chunk.iter().map(|at| &tasks[*at]).collect();
        let outcomes = together(self, desk, &self.jobs[job], &members).await?;
        self.paces[job].ran(began.elapsed(), chunk.len());
        for (at, outcome) in chunk.iter().zip(outcomes) {
            if let Some(outcome) = outcome {
                let task = &mut tasks[*at];
                let span = report::span(self.jobs[job].spec(), &task.message, task.progress.standing(job));
                span.in_scope(|| self.enter(job, task, outcome, began));
            }
        }
        Ok(())
    }

    /// What could not be done together is done one by one, in order. Trouble of the database
    /// ends it: it would meet each of them.
    async fn run_each(&self, job: usize, chunk: &[usize], tasks: &mut [Task<Progress>], desk: &mut Desk<S>) {
        for at in chunk.iter().copied() {
            let mut one = at;
            // Again in the way of a chunk: the one before it in its lane may have failed now.
            if self.chunk(job, 1, &tasks[..=at], &mut one).is_empty() {
                continue;
            }
            desk.then = Some(terms(self.jobs[job].spec()));
            if self.run_one(job, &mut tasks[at], desk).await == Fault::Transient {
                return;
            }
        }
    }

    /// Enters what became of a message.
    pub(super) fn enter(&self, job: usize, task: &mut Task<Progress>, outcome: Outcome, began: Instant) {
        match &outcome {
            Outcome::Done => self.lanes().note(task, false),
            Outcome::Duplicate | Outcome::Unverified => self.lanes().note(task, true),
            Outcome::Failed(_) | Outcome::Dead(_) => {}
        }
        let standing = task.progress.standing(job);
        let verdict = self.tell(&self.jobs[job], &task.message, outcome, standing, began);
        task.progress.enter(job, verdict, Instant::now());
    }
}

impl Outcome {
    fn fault(&self) -> Fault {
        match self {
            Self::Failed(Failure { fault, .. }) => *fault,
            _ => Fault::Lasting,
        }
    }
}
