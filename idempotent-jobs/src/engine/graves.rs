//! Dead letters without a claim, which only their coordinates tell when they come again.
//!
//! A message that could not be read or keyed, or that no job took, may be readable to the program that
//! reads it next. It is a dead letter all the same, and is not run behind that one's back. So each assignment
//! begins with one question to the database, which mostly finds nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::desk::Desk;
use super::lanes::Task;
use super::outcome::Outcome;
use super::{Engine, Progress, report};
use crate::message::Coordinates;
use crate::store::{Store, StoreError, Unkeyed};

/// Of each assignment that was asked for.
#[derive(Debug, Default)]
pub(super) struct Graves(Mutex<HashMap<u64, Arc<Unmarked>>>);

/// By their offset, one or a few each.
pub(super) type Unmarked = HashMap<i64, Vec<Unkeyed>>;

/// How long trouble of the database is waited for before its messages are looked at again.
pub(super) const REST: Duration = Duration::from_millis(500);

impl Graves {
    fn of(&self, epoch: u64) -> Option<Arc<Unmarked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&epoch).cloned()
    }

    /// Whether a message is known to be no dead letter.
    pub fn is_clear(&self, task: &Task<Progress>) -> bool {
        let offset = task.message.coordinates.offset;
        self.of(task.epoch()).is_some_and(|letters| !letters.contains_key(&offset))
    }

    pub fn keep(&self, epoch: u64, letters: Vec<Unkeyed>, current: &[u64]) -> Arc<Unmarked> {
        let mut unmarked = Unmarked::new();
        letters.into_iter().for_each(|letter| unmarked.entry(letter.offset).or_default().push(letter));
        let letters = Arc::new(unmarked);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|epoch, _| current.contains(epoch));
        all.insert(epoch, Arc::clone(&letters));
        letters
    }
}

impl<S: Store> Engine<S> {
    /// Settles what is a dead letter without a claim. `false`: nobody knows, and nothing may run.
    pub(super) async fn pass_over(&self, tasks: &mut [Task<Progress>], jobs: &[usize], desk: &mut Desk<S>) -> bool {
        for task in tasks {
            match self.unkeyed(task, desk).await {
                Ok(letters) => {
                    if let Some(letters) = letters.get(&task.message.coordinates.offset) {
                        self.leave_dead(task, jobs, letters);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "which messages of a partition are dead letters is not known yet: it waits");
                    self.rest(REST).await;
                    return false;
                }
            }
        }
        true
    }

    async fn unkeyed(&self, task: &Task<Progress>, desk: &mut Desk<S>) -> Result<Arc<Unmarked>, StoreError> {
        if let Some(letters) = self.graves.of(task.epoch()) {
            return Ok(letters);
        }
        // It takes a connection of its own, and this worker's may be the last.
        desk.clear(self).await;
        let Some(offset) = self.lanes().first(task) else { return Ok(Arc::default()) };
        let from = Coordinates { offset, ..task.message.coordinates.clone() };
        let letters = self.store.unkeyed(&self.group, &from).await?;
        let current = self.lanes().epochs();
        Ok(self.graves.keep(task.epoch(), letters, &current))
    }

    fn leave_dead(&self, task: &mut Task<Progress>, jobs: &[usize], letters: &[Unkeyed]) {
        let message = Arc::clone(&task.message);
        for letter in letters.iter().filter(|letter| letter.is(&message)) {
            for job in jobs {
                let spec = self.jobs[*job].spec();
                let its = letter.job.as_deref().is_none_or(|name| name == spec.name);
                if its && task.progress.is_open(*job) {
                    let span = report::span(spec, &message, task.progress.standing(*job));
                    span.in_scope(|| self.enter(*job, task, Outcome::DeadBefore, Instant::now()));
                }
            }
        }
    }
}
