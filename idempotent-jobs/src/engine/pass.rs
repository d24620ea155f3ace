//! Passes messages through their jobs.
//!
//! Invariant: a job is given the messages of a lane in their order, and none while an earlier
//! one of its lane is not settled by it.

use std::time::{Duration, Instant};

use tracing::{Instrument, Span};

use super::attempts::Said;
use super::desk::Desk;
use super::execute::attempt;
use super::lanes::{Back, End, Group, Task};
use super::outcome::Outcome;
use super::together::{Member, Undone, together};
use super::{Engine, Progress, report, terms};
use crate::store::{Fault, Store};

/// How long a worker makes good what was undone before it leaves the rest to others.
const EACH: Duration = Duration::from_secs(1);

impl<S: Store> Engine<S> {
    /// Gives the messages of a group to every job that has not settled them yet.
    pub(super) async fn pass(&self, group: Group<Progress>, desk: &mut Desk<S>) {
        let jobs = &self.classes.class(group.class).jobs;
        let mut tasks = group.tasks;
        tasks.iter_mut().for_each(|task| task.progress.open(jobs));
        if !self.pass_over(&mut tasks, jobs, desk).await {
            return self.conclude(tasks, false);
        }
        if !self.know_parked(&tasks, jobs, desk).await {
            return self.conclude(tasks, false);
        }
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
        let rests = ends.iter().any(|(_, end)| matches!(end, End::Back(Back { due: Some(_), .. })));
        let ready = {
            let mut lanes = self.lanes();
            lanes.conclude(ends);
            lanes.has_ready()
        };
        for (message, (job, rejection)) in given_up {
            self.give_up(&message, Some(&self.jobs[job]), rejection);
        }
        if ready || rests {
            self.work.notify_one();
        }
        self.rest.notify_all();
    }

    /// One job, with as many messages at a time as it takes. `later`: the jobs after it.
    async fn run_job(&self, job: usize, later: &[usize], tasks: &mut [Task<Progress>], desk: &mut Desk<S>) {
        let spec = self.jobs[job].spec();
        let mut from = 0;
        let single = desk.alone || tasks.iter().any(|task| task.progress.is_kept(job));
        loop {
            let limit = if single { 1 } else { self.paces[job].fit(spec) };
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
                let tried = self.run_each(job, &chunk, tasks, desk).await;
                chunk[tried..].iter().for_each(|at| tasks[*at].progress.alone = true);
            }
        }
    }

    /// The next messages that the job may run now, in order; `from` moves behind the last of them.
    /// None once a message of the group was given up: everything stops there.
    fn chunk(&self, job: usize, limit: usize, tasks: &[Task<Progress>], from: &mut usize) -> Vec<usize> {
        let given_up = tasks.iter().any(|task| task.progress.given_up.is_some());
        if given_up || *self.stopping.borrow() || self.is_asleep() {
            return Vec::new();
        }
        let now = Instant::now();
        let lanes = self.lanes();
        let may = |task: &Task<Progress>| task.progress.is_due(job, now) && lanes.may_start(task);
        choose(job, limit, tasks, from, may, |task| self.waiting_lane(job, task).is_some())
    }

    /// What was undone runs one by one, in order, and the neighbours of a bad message before
    /// anything stops for it. What takes longer is left to whoever is free, since the lanes of all
    /// of them wait; and trouble of the database would meet each. How many had their turn.
    async fn run_each(&self, job: usize, chunk: &[usize], tasks: &mut [Task<Progress>], desk: &mut Desk<S>) -> usize {
        let until = Instant::now() + EACH;
        for (nth, at) in chunk.iter().copied().enumerate() {
            let now = Instant::now();
            if now >= until || *self.stopping.borrow() || self.is_asleep() {
                return nth;
            }
            let task = &tasks[at];
            if is_held(job, tasks, at) || !task.progress.is_due(job, now) || !self.lanes().may_start(task) {
                continue;
            }
            desk.then = Some(terms(self.jobs[job].spec()));
            if self.run_one(job, &mut tasks[at], desk).await == Fault::Transient {
                return nth;
            }
        }
        chunk.len()
    }

    /// One attempt in a transaction of its own.
    async fn run_one(&self, job: usize, task: &mut Task<Progress>, desk: &mut Desk<S>) -> Fault {
        if desk.alone
            && let Err(fault) = self.note_run(job, task).await
        {
            return fault;
        }
        if task.progress.death(job).is_none() && task.progress.is_killer(job) {
            self.accuse(job, task);
        }
        let kept = task.progress.is_kept(job);
        if task.progress.death(job).is_some() || task.progress.given_up.is_some() {
            return self.end(job, task, Said::nothing(kept), desk).await;
        }
        if let Some(lane) = self.waiting_lane(job, task)
            && let Some(fault) = self.park(job, task, &lane, desk).await
        {
            let (died, noted) = (task.progress.death(job).is_some(), task.progress.is_noted(job));
            self.note_end(job, task, &Said::parked(fault, died, kept, noted), desk).await;
            return fault;
        }
        let (routed, standing) = (&self.jobs[job], task.progress.standing(job));
        let span = report::span(routed.spec(), &task.message, standing);
        let began = Instant::now();
        let outcome =
            attempt(self, desk, routed, &task.message, standing.failures + 1, kept).instrument(span.clone()).await;
        self.paces[job].ran(began.elapsed(), 1);
        let said = Said::by(&outcome, kept);
        span.in_scope(|| self.enter(job, task, outcome, began));
        self.end(job, task, said, desk).instrument(span).await
    }

    /// What an attempt leaves behind: a dead letter, or a note.
    async fn end(&self, job: usize, task: &mut Task<Progress>, said: Said, desk: &mut Desk<S>) -> Fault {
        match task.progress.death(job) {
            Some(_) => {
                let fault = self.bury(job, task, desk).await;
                self.note_end(job, task, &Said::nothing(said.kept), desk).await;
                fault
            }
            None => {
                self.note_end(job, task, &said, desk).await;
                said.fault
            }
        }
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
        let spec = self.jobs[job].spec();
        let member = |at: &usize| {
            let task = &tasks[*at];
            Member { task, span: report::span(spec, &task.message, task.progress.standing(job)) }
        };
        let members: Vec<Member<'_>> = chunk.iter().map(member).collect();
        let outcomes = together(self, desk, &self.jobs[job], &members).await?;
        let spans: Vec<Span> = members.into_iter().map(|member| member.span).collect();
        self.paces[job].ran(began.elapsed(), chunk.len());
        for ((at, span), outcome) in chunk.iter().zip(spans).zip(outcomes) {
            let Some(outcome) = outcome else { continue };
            span.in_scope(|| self.enter(job, &mut tasks[*at], outcome, began));
            if tasks[*at].progress.death(job).is_some() {
                self.bury(job, &mut tasks[*at], desk).instrument(span).await;
            }
        }
        Ok(())
    }

    /// Enters what became of a message.
    pub(super) fn enter(&self, job: usize, task: &mut Task<Progress>, outcome: Outcome, began: Instant) {
        match &outcome {
            Outcome::Done | Outcome::Discarded(_) => self.lanes().note(task, false),
            Outcome::Duplicate | Outcome::Unverified => self.lanes().note(task, true),
            Outcome::DeadBefore => {
                self.lanes().note(task, true);
                self.may_wait(job, task);
            }
            // Together with others it would undo what they did, again and again.
            Outcome::Snoozed(_) => task.progress.alone = true,
            Outcome::Parked | Outcome::Crowded | Outcome::Failed(_) | Outcome::Dead(_) => {}
        }
        let standing = task.progress.standing(job);
        let verdict = self.tell(&self.jobs[job], &task.message, outcome, standing, began);
        task.progress.enter(job, verdict, Instant::now());
    }
}

/// Chooses from the messages that `may` run those that need not wait for an earlier one of their lane. One that
/// is to be `alone` is chosen with no other.
fn choose(
    job: usize,
    limit: usize,
    tasks: &[Task<Progress>],
    from: &mut usize,
    may: impl Fn(&Task<Progress>) -> bool,
    alone: impl Fn(&Task<Progress>) -> bool,
) -> Vec<usize> {
    let mut chunk = Vec::new();
    let mut held = is_held(job, tasks, *from);
    while *from < tasks.len() && chunk.len() < limit {
        let (at, task) = (*from, &tasks[*from]);
        let run = !held && may(task);
        let alone = run && alone(task);
        if alone && !chunk.is_empty() {
            break;
        }
        if run {
            chunk.push(at);
        }
        *from += 1;
        let beside = tasks.get(*from).is_some_and(|next| next.is_beside(task));
        held = beside && (held || !run && task.progress.is_open(job));
        if alone {
            break;
        }
    }
    chunk
}

/// Whether the job has yet to settle a message that lies before `at` in its lane.
fn is_held(job: usize, tasks: &[Task<Progress>], at: usize) -> bool {
    let Some(task) = tasks.get(at) else { return false };
    let before = tasks[..at].iter().rev().take_while(|before| before.is_beside(task));
    before.into_iter().any(|before| before.progress.is_open(job))
}

#[cfg(test)]
mod tests;
