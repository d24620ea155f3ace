//! Dead letters that no job took, once jobs are there that do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::run::{Ran, Whose};
use super::{Again, Engine, LOOK, Next, REST, Routed};
use crate::context::Isolation;
use crate::engine::execute::identity;
use crate::engine::gate::Pass;
use crate::engine::outcome::Outcome;
use crate::engine::report::unknown_event;
use crate::error::Rejection;
use crate::message::Message;
use crate::store::{Buried, Claimed, DeadLetter, Death, Store, StoreError, Terms};

const TERMS: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(15) };

impl<S: Store> Engine<S> {
    /// Runs it by each job that takes its event, as a new message: claims of their own keep each from doing
    /// it twice, and one that fails has a dead letter of its own. How long it is to rest.
    pub(super) async fn route(&self, id: i64, mut noted: Instant, pass: &mut Option<Pass>) -> Option<Duration> {
        let message = match self.read(id).await {
            Ok(Some(letter)) => letter.message,
            Ok(None) => return Some(LOOK),
            Err(error) => {
                tracing::warn!(letter = id, %error, "could not be run again yet");
                return Some(REST);
            }
        };
        let jobs = self.classes.place(&message).map(|place| self.classes.class(place.class).jobs.as_slice());
        let Some(jobs @ [_, ..]) = jobs else {
            let again = Again { rejection: &unknown_event(&message), attempts: 0, copy_to: None };
            return self.open_again(id, None, &message, again, pass).await;
        };
        for (nth, job) in jobs.iter().enumerate() {
            // Between two runs it is free, and the note of the first one may be old.
            if nth > 0 {
                noted = Instant::now();
                if let Err(wait) = self.note_letter(id).await {
                    return Some(wait);
                }
            }
            if let Some(wait) = self.route_to(&self.jobs[*job], id, noted).await {
                return Some(wait);
            }
        }
        *pass = None;
        match self.routed(id).await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(letter = id, %error, "that it was run again could not be written yet");
                Some(REST)
            }
        }
    }

    async fn route_to(&self, job: &Routed<S>, id: i64, noted: Instant) -> Option<Duration> {
        let (message, outcome) = match self.run_letter(job, id, Whose::Nobodys, 0, noted).await {
            Ran::Gone => return Some(REST),
            Ran::Unread(error) => {
                tracing::warn!(letter = id, %error, "could not be run again yet");
                return Some(REST);
            }
            Ran::To { message, outcome, .. } => (message, outcome),
        };
        match self.tell_redrive(job.spec().name, outcome) {
            Next::Settled => None,
            Next::Later(wait) => Some(wait),
            Next::Open(rejection, entered) => self.bury_of(job, &message, rejection, entered).await,
        }
    }

    /// The failed job has a dead letter of its own.
    async fn bury_of(
        &self,
        job: &Routed<S>,
        message: &Arc<Message>,
        mut rejection: Rejection,
        entered: bool,
    ) -> Option<Duration> {
        let identity = identity(job, message);
        loop {
            let death = Death {
                group: &self.group,
                job: Some(job.spec().name),
                message,
                claim: identity.as_ref().map(|(key, print)| self.claim_of(job.spec(), key, *print, message)),
                reason: rejection.reason,
                error: &rejection.detail,
                attempts: u32::from(entered),
                copy_to: self.copy_to(message),
                // What came later went on long since.
                lane: None,
            };
            match self.store.bury_aside(&death).await {
                // Its key became another message's meanwhile; a conflict claims nothing, so this is not said twice.
                Ok(Buried::Seen(claimed @ Claimed::Conflict { .. })) => match Outcome::seen(claimed) {
                    Outcome::Dead(conflict) => rejection = conflict,
                    _ => return None,
                },
                Ok(_) => return None,
                Err(error) => {
                    tracing::warn!(%error, "the dead letter could not be written yet");
                    return Some(REST);
                }
            }
        }
    }

    /// The letter as it is stored.
    pub(super) async fn read(&self, id: i64) -> Result<Option<DeadLetter>, StoreError> {
        let mut tx = self.store.begin_aside(TERMS).await?;
        let letter = self.store.take_letter(&mut tx, id).await?;
        self.store.rollback(tx).await;
        Ok(letter)
    }

    async fn routed(&self, id: i64) -> Result<(), StoreError> {
        const DOING: &str = "marking a dead letter as redriven";
        let mut tx = self.store.begin_aside(TERMS).await?;
        if self.store.take_letter(&mut tx, id).await?.is_some() {
            self.store.redriven(&mut tx, id, Some("given to the jobs that take its event")).await?;
        }
        self.store.commit(tx, TERMS.timeout).await.map_err(|error| StoreError::transient(DOING, error))
    }
}
