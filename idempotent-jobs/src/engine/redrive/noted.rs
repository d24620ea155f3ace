//! A dead letter may kill the process that runs it again, which a supervisor starts again.
//!
//! Invariant: a run of a letter is noted before the letter is read. Who finds the note of another process, and the
//! letter free, knows that this one died in it, of this letter or of something beside it; from then on the letter
//! runs with nothing beside it. It is opened again, as one that kills, after as many deaths as a message is given up for.

use std::time::Duration;

use super::{After, Engine, LOOK, REST};
use crate::engine::gate;
use crate::engine::settle::{KILLS, Standing, kills};
use crate::error::Reason;
use crate::store::{self, Redrive, Requested, Store};

impl<S: Store> Engine<S> {
    pub(super) async fn redrive_noted(&self, letter: &Requested, standing: Standing) -> After {
        let beside = gate::beside().await;
        let mut deaths = match self.note_redrive(letter).await {
            Ok(deaths) => deaths,
            Err(wait) => return After::Rests(standing, wait),
        };
        let mut pass = beside;
        if (1..KILLS).contains(&deaths) {
            // Whoever waits does not run, and is not to blame if the process dies meanwhile.
            self.redrive_ended(letter, Redrive::Kept).await;
            drop(pass);
            pass = gate::alone().await;
            deaths = match self.note_redrive(letter).await {
                Ok(deaths) => deaths,
                Err(wait) => return After::Rests(standing, wait),
            };
        }
        let after = if deaths >= KILLS {
            drop(pass);
            self.accuse_letter(letter, deaths).await.map_or(After::Left, |wait| After::Rests(standing, wait))
        } else {
            self.redrive_one(letter, standing, pass).await
        };
        let ended = match after {
            After::Again(..) => Redrive::Survived,
            After::Rests(..) | After::Settled | After::Left => Redrive::Kept,
        };
        self.redrive_ended(letter, ended).await;
        after
    }

    /// How many processes died of it. An error: it is not to be run now.
    async fn note_redrive(&self, letter: &Requested) -> Result<u32, Duration> {
        match self.store.note_redrive(letter.id, self.owners.process()).await {
            Ok(Some(deaths)) => Ok(deaths),
            // It is another's, or was one's who died: that shows when nothing more is heard of it.
            Ok(None) => Err(LOOK),
            Err(error) => {
                tracing::warn!(letter = letter.id, %error, "could not be run again yet");
                Err(REST)
            }
        }
    }

    async fn redrive_ended(&self, letter: &Requested, ended: Redrive) {
        if let Err(error) = self.store.redrive_ended(letter.id, self.owners.process(), ended).await {
            tracing::warn!(letter = letter.id, %error, "that a run of a dead letter is over could not be written");
        }
    }

    /// Nothing of the user's reads it again before a person asks for it.
    async fn accuse_letter(&self, letter: &Requested, deaths: u32) -> Option<Duration> {
        let rejection = kills(deaths);
        let waited = match self.read(letter.id).await {
            Ok(Some(found)) => Some(found).filter(|found| found.reason == Reason::Parked.as_str()),
            Ok(None) => return Some(LOOK),
            Err(error) => {
                tracing::warn!(letter = letter.id, %error, "that a dead letter kills could not be written yet");
                return Some(REST);
            }
        };
        // It died for the first time, having waited for another.
        let first = waited.as_ref().map(|found| store::Death {
            group: &self.group,
            job: found.job.as_deref(),
            message: &found.message,
            claim: None,
            reason: rejection.reason,
            error: &rejection.detail,
            attempts: 0,
            copy_to: self.copy_to(&found.message),
            lane: None,
        });
        let copied = first.as_ref().is_some_and(|death| death.copy_to.is_some());
        let again = store::Again { rejection: &rejection, attempts: 0, claim: None, first: first.as_ref() };
        tracing::error!(letter = letter.id, deaths, "a dead letter killed the process whenever it was run again");
        match self.store.reopen(letter.id, &again).await {
            Ok(_) => {
                if copied {
                    self.bell.notify_one();
                }
                None
            }
            Err(error) => {
                tracing::warn!(letter = letter.id, %error, "that a dead letter kills could not be written yet");
                Some(REST)
            }
        }
    }
}
