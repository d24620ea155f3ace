//! Finds out in bulk which messages were seen before. After a crash most that come were, and a
//! transaction for each would be a waste.
//!
//! A claim that is committed never becomes free again while its message can still come, so what
//! is seen here is as good as what a claim would have found; one that died becomes done, and the
//! message is skipped either way. Nothing else is decided: all others
//! go back to their lanes.

use std::time::Instant;

use super::desk::Desk;
use super::execute::prepare;
use super::lanes::{Group, Task};
use super::outcome::Outcome;
use super::{Engine, Progress, report};
use crate::job::Prepared;
use crate::store::{Claim, Claimed, Store};

impl<S: Store> Engine<S> {
    /// Settles what was seen before.
    pub(super) async fn look(&self, group: Group<Progress>) {
        let mut tasks = group.tasks;
        let jobs = &self.classes.class(group.class).jobs;
        tasks.iter_mut().for_each(|task| task.progress.open(jobs));
        // What is a letter without a claim is not read again.
        if !self.pass_over(&mut tasks, jobs, &mut Desk::default()).await {
            return self.conclude(tasks, false);
        }
        let mut found = Some(0);
        for job in jobs {
            found = found.and(self.look_for(*job, &mut tasks).await.map(|more| found.unwrap_or(0) + more));
        }
        if found == Some(0)
            && let Some(task) = tasks.first()
        {
            self.lanes().trust(task);
        }
        self.conclude(tasks, true);
    }

    /// How many messages the job had seen; `None`: nobody knows.
    async fn look_for(&self, job: usize, tasks: &mut [Task<Progress>]) -> Option<usize> {
        let began = Instant::now();
        let routed = &self.jobs[job];
        let read: Vec<(usize, Prepared)> = tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.progress.is_open(job))
            // What cannot be read is told in its turn.
            .filter_map(|(index, task)| Some((index, prepare(routed, &task.message).ok()?)))
            .collect();
        let claims: Vec<Claim<'_>> =
            read.iter().map(|(index, prepared)| self.claim(routed.spec(), prepared, &tasks[*index].message)).collect();
        let seen = match self.store.seen(&claims).await {
            Ok(seen) => seen,
            Err(error) => {
                tracing::debug!(%error, "which messages were seen before is not known; each is claimed");
                return None;
            }
        };
        let mut found = 0;
        for ((index, prepared), seen) in read.iter().zip(seen) {
            if matches!(seen, Claimed::Duplicate | Claimed::Unverified | Claimed::Dead) {
                let task = &mut tasks[*index];
                let span = report::span(routed.spec(), &task.message, task.progress.standing(job));
                span.record("key_hash", prepared.key.hash());
                span.in_scope(|| self.enter(job, task, Outcome::seen(seen), began));
                found += 1;
            }
        }
        Some(found)
    }
}
