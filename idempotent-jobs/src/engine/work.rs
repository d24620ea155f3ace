//! A worker: takes the heads of lanes, passes them through their jobs, settles them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::desk::Desk;
use super::gate::{self, Pass};
use super::lanes::{Group, Next};
use super::{Engine, Progress, Routed};
use crate::message::Message;
use crate::store::Store;

/// Works until the engine stops.
pub(crate) async fn work<S: Store>(engine: Arc<Engine<S>>) {
    let mut desk = Desk::default();
    while let Some(mut group) = engine.next(&mut desk).await {
        if !engine.take_over(&mut group, &mut desk).await {
            engine.conclude(group.tasks, false);
            continue;
        }
        let _pass = engine.gate(&group, &mut desk).await;
        if engine.classes.class(group.class).jobs.is_empty() {
            engine.unrouted(group.tasks, &mut desk).await;
        } else if group.looking && desk.alone {
            // Reading many together would not tell which of them kills.
            engine.conclude(group.tasks, true);
        } else if group.looking {
            // It takes a connection of its own, and this worker's may be the last.
            desk.clear(&engine).await;
            engine.look(group).await;
        } else {
            engine.pass(group, &mut desk).await;
        }
    }
}

/// While the consumer does not poll, whether it does again is looked at so often.
const ASLEEP: Duration = Duration::from_millis(50);

impl<S: Store> Engine<S> {
    /// Waits until these messages may run: beside others, or alone where one of them may kill the process.
    async fn gate(&self, group: &Group<Progress>, desk: &mut Desk<S>) -> Pass {
        desk.alone = self.is_suspect(group);
        if !desk.alone
            && let Some(pass) = gate::try_beside()
        {
            return pass;
        }
        desk.clear(self).await;
        if desk.alone { gate::alone(self.rank(group)).await } else { gate::beside().await }
    }

    /// The next messages to run; `None` once the engine stops.
    async fn next(&self, desk: &mut Desk<S>) -> Option<Group<Progress>> {
        if let Some(group) = desk.next.take() {
            if !self.is_asleep() {
                return Some(group);
            }
            self.conclude(group.tasks, false);
        }
        loop {
            let woken = self.work.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if *self.stopping.borrow() {
                desk.clear(self).await;
                return None;
            }
            // Before looking: whoever makes a lane ready behind this look is to see that it is idle.
            let idle = Idle::of(self);
            let (next, more) = self.take();
            if !matches!(next, Next::Group(_)) && desk.is_open() {
                drop(idle);
                desk.clear(self).await;
                continue;
            }
            match next {
                Next::Group(group) => {
                    drop(idle);
                    // The one that waited for an instant may have been woken for this.
                    if more && self.idle.load(Ordering::Relaxed) > 0 {
                        self.work.notify_one();
                    }
                    return Some(group);
                }
                Next::Until(due) => tokio::select! {
                    () = woken => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                },
                Next::Idle => woken.await,
            }
        }
    }

    /// What is there to do, and whether there is more for another worker.
    fn take(&self) -> (Next<Progress>, bool) {
        let now = Instant::now();
        if self.pulse.is_stopped(now) {
            return (Next::Until(now + ASLEEP), false);
        }
        let mut lanes = self.lanes();
        let next = lanes.take(now, self.width(), |class| self.limit(class));
        (next, lanes.has_more())
    }

    /// The most messages of a class to be taken together.
    fn limit(&self, class: usize) -> usize {
        let jobs = &self.classes.class(class).jobs;
        jobs.iter().map(|job| self.paces[*job].fit(self.jobs[*job].spec())).max().unwrap_or(1)
    }

    /// Whether this process slept, or may have, and has not heard of its group since.
    pub(super) fn is_asleep(&self) -> bool {
        self.pulse.is_stopped(Instant::now())
    }

    /// Messages to be run next by a worker that is about to commit, unless another has nothing
    /// to do and would begin with them sooner.
    pub(super) fn take_ahead(&self) -> Option<Group<Progress>> {
        if self.idle.load(Ordering::Relaxed) > 0 || *self.stopping.borrow() {
            return None;
        }
        match self.take().0 {
            Next::Group(group) => Some(group),
            Next::Until(_) | Next::Idle => None,
        }
    }

    /// The job that a group is for first, and the message, if it is a new one by itself for that
    /// job alone. A look needs no transaction.
    pub(super) fn first_of(&self, group: &Group<Progress>) -> Option<(&Routed<S>, Option<Arc<Message>>)> {
        let jobs = &self.classes.class(group.class).jobs;
        let job = &self.jobs[*jobs.first().filter(|_| !group.looking)?];
        let task = &group.tasks[0];
        let alone = jobs.len() == 1 && group.tasks.len() == 1 && task.progress.is_new();
        // Its claim is made ahead, for which it is read.
        let alone = alone && self.owners.is_clear(task) && self.graves.is_clear(task);
        Some((job, alone.then(|| Arc::clone(&group.tasks[0].message))))
    }
}

/// Counts a worker as one that has nothing to do.
struct Idle<'a>(&'a AtomicUsize);

impl<'a> Idle<'a> {
    fn of<S: Store>(engine: &'a Engine<S>) -> Self {
        engine.idle.fetch_add(1, Ordering::Relaxed);
        Self(&engine.idle)
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
