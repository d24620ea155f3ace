//! A dead letter may kill the process that runs it again, which a supervisor starts again.
//!
//! Invariant: a run of a letter is noted before the letter is read. Who finds the note of another process, and the
//! letter free, knows that this one died in it, of this letter or of something beside it; from then on the letter
//! runs with nothing beside it. It is opened again, as one that kills, after as many deaths as a message is given up for.

use std::time::Duration;

use tokio::time::Instant;

use super::{After, Engine, LOOK, REST};
use crate::engine::gate;
use crate::engine::settle::{KILLS, Standing, kills};
use crate::error::Reason;
use crate::store::{self, Redrive, Redriven, Requested, Store};

impl<S: Store> Engine<S> {
    pub(super) async fn redrive_noted(&self, letter: &Requested, standing: Standing) -> After {
        let beside = gate::beside().await;
        let mut noted = Instant::now();
        let mut known = match self.note_letter(letter.id).await {
            Ok(known) => known,
            Err(wait) => return After::Rests(standing, wait),
        };
        let mut pass = Some(beside);
        if (1..KILLS).contains(&known.deaths) {
            // Whoever waits does not run, and is not to blame if the process dies meanwhile.
            let waits = Redrive { survived: false, failures: known.failures, wait: Duration::ZERO };
            self.redrive_ended(letter, waits).await;
            drop(pass);
            pass = Some(gate::alone(gate::Rank { unstruck: false, behind: 0 }).await);
            noted = Instant::now();
            known = match self.note_letter(letter.id).await {
                Ok(known) => known,
                Err(wait) => return After::Rests(standing, wait),
            };
        }
        // More only if its last end could not be written.
        let standing = Standing { failures: standing.failures.max(known.failures), ..standing };
        let after = if known.deaths >= KILLS {
            pass = None;
            self.accuse_letter(letter, known.deaths).await.map_or(After::Left, |wait| After::Rests(standing, wait))
        } else {
            self.redrive_one(letter, standing, noted, &mut pass).await
        };
        let (survived, standing, wait) = match &after {
            After::Again(standing, wait) => (true, *standing, *wait),
            After::Rests(standing, wait) => (false, *standing, *wait),
            After::Settled | After::Left => (false, Standing::default(), Duration::ZERO),
        };
        let written = self.redrive_ended(letter, Redrive { survived, failures: standing.failures, wait }).await;
        // Who dies from here on did not die of it.
        drop(pass);
        // The database knows them.
        if written { after.without_failures() } else { after }
    }

    /// What is known of it. An error: it is not to be run now.
    pub(super) async fn note_letter(&self, id: i64) -> Result<Redriven, Duration> {
        match self.store.note_redrive(id, self.owners.process()).await {
            Ok(Some(known)) => Ok(known),
            // It is another's, or was one's who died: that shows when nothing more is heard of it.
            Ok(None) => Err(LOOK),
            Err(error) => {
                tracing::warn!(letter = id, %error, "could not be run again yet");
                Err(REST)
            }
        }
    }

    /// Whether it is written.
    async fn redrive_ended(&self, letter: &Requested, ended: Redrive) -> bool {
        let written = self.store.redrive_ended(letter.id, self.owners.process(), ended).await;
        if let Err(error) = &written {
            tracing::warn!(letter = letter.id, %error, "that a run of a dead letter is over could not be written");
        }
        // Another process may have taken the run for one that died.
        written.unwrap_or(false)
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
