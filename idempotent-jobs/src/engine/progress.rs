//! Which jobs a message still has to pass, and how each stands to it. Pure.

use std::time::{Duration, Instant};

use super::lanes::{Back, End};
use super::settle::{Death, KILLS, Standing, Verdict};
use crate::error::Rejection;
use crate::store::Attempted;

/// What is left to do of a message.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// `None` until its first attempt: every job of its class.
    open: Option<Vec<Open>>,
    /// The job that gave it up.
    pub given_up: Option<(usize, Rejection)>,
    /// What it was part of was undone: it is run by itself.
    pub alone: bool,
}

/// One job that has not settled the message.
#[derive(Debug, Clone)]
struct Open {
    job: usize,
    standing: Standing,
    due: Option<Instant>,
    /// It is given up, and its dead letter is yet to be written.
    death: Option<Death>,
    /// Something of it may be kept beside its message: whoever settles it deletes that.
    kept: bool,
    /// It surely is.
    noted: bool,
    /// Processes that died of it.
    deaths: u32,
    /// One may have died of it.
    suspect: bool,
}

impl Open {
    fn new(job: usize) -> Self {
        Self {
            job,
            standing: Standing::default(),
            due: None,
            death: None,
            kept: false,
            noted: false,
            deaths: 0,
            suspect: false,
        }
    }
}

/// Transient failures in a row after which a message runs alone: what ails it may be the
/// company of others.
const STUMBLES_TOGETHER: u32 = 2;

impl Progress {
    /// Whether nothing was tried yet.
    pub fn is_new(&self) -> bool {
        self.open.is_none()
    }

    /// Takes stock before the first attempt.
    pub fn open(&mut self, jobs: &[usize]) {
        self.open.get_or_insert_with(|| jobs.iter().map(|job| Open::new(*job)).collect());
    }

    /// Enters what an earlier owner left of it.
    pub fn recall(&mut self, job: usize, attempted: &Attempted, now: Instant) {
        let Some(open) = self.find_mut(job) else { return };
        open.kept = true;
        open.noted = true;
        open.standing.failures = attempted.failures;
        open.deaths = attempted.deaths;
        open.suspect = attempted.deaths > 0 || attempted.runs;
        open.due = (!attempted.wait.is_zero()).then(|| now + attempted.wait);
    }

    fn find_mut(&mut self, job: usize) -> Option<&mut Open> {
        self.open.iter_mut().flatten().find(|open| open.job == job)
    }

    /// What is to be kept of it is written, and so it is kept from now on.
    pub fn noted(&mut self, job: usize) {
        if let Some(open) = self.open.iter_mut().flatten().find(|open| open.job == job) {
            (open.kept, open.noted) = (true, true);
        }
    }

    /// Whether something of it is surely kept.
    pub fn is_noted(&self, job: usize) -> bool {
        self.find(job).is_some_and(|open| open.noted)
    }

    /// Something of it is kept from now on, or may be.
    pub fn keep(&mut self, job: usize) {
        if let Some(open) = self.find_mut(job) {
            open.kept = true;
        }
    }

    /// Whether something of it may be kept.
    pub fn is_kept(&self, job: usize) -> bool {
        self.find(job).is_some_and(|open| open.kept)
    }

    /// How many processes died of it.
    pub fn deaths(&self, job: usize) -> u32 {
        self.find(job).map_or(0, |open| open.deaths)
    }

    /// Whether so many died of it that it is given up.
    pub fn is_killer(&self, job: usize) -> bool {
        self.deaths(job) >= KILLS
    }

    /// Whether the process dies of reading it: the last one did while it was about to be given up.
    pub fn is_unreadable(&self, job: usize) -> bool {
        self.deaths(job) > KILLS
    }

    /// It ran with nothing beside it, and the process lives: nothing that died before died of it.
    pub fn survived(&mut self, job: usize) {
        if let Some(open) = self.find_mut(job) {
            (open.suspect, open.deaths) = (false, 0);
        }
    }

    /// It was read and is not to be run yet: until then nobody waits for it. If a process dies of it then, that is found.
    pub fn waits(&mut self, job: usize) {
        if let Some(open) = self.find_mut(job) {
            open.suspect = false;
        }
    }

    /// Whether a process was struck down in it, while it ran alone.
    pub fn is_struck(&self) -> bool {
        self.open.iter().flatten().any(|open| open.deaths > 0)
    }

    /// Whether any process may have died of it.
    pub fn is_suspect(&self) -> bool {
        self.open.iter().flatten().any(|open| open.suspect)
    }

    /// How long it is still to wait.
    pub fn wait(&self, job: usize, now: Instant) -> Duration {
        let due = self.find(job).and_then(|open| open.due);
        due.map(|due| due.saturating_duration_since(now)).unwrap_or_default()
    }

    fn find(&self, job: usize) -> Option<&Open> {
        self.open.as_ref()?.iter().find(|open| open.job == job)
    }

    /// Whether the job has yet to settle it.
    pub fn is_open(&self, job: usize) -> bool {
        self.find(job).is_some()
    }

    /// Whether the job may run it now.
    pub fn is_due(&self, job: usize, now: Instant) -> bool {
        self.given_up.is_none() && self.find(job).is_some_and(|open| open.due.is_none_or(|due| due <= now))
    }

    pub fn standing(&self, job: usize) -> Standing {
        self.find(job).map(|open| open.standing).unwrap_or_default()
    }

    /// Why the job gave it up, if its dead letter is yet to be written.
    pub fn death(&self, job: usize) -> Option<&Death> {
        self.find(job)?.death.as_ref()
    }

    /// It is not given up after all.
    pub fn revive(&mut self, job: usize) {
        if let Some(open) = self.find_mut(job) {
            open.death = None;
        }
    }

    /// A job's verdict.
    pub fn enter(&mut self, job: usize, verdict: Verdict, now: Instant) {
        let open = self.open.get_or_insert_default();
        match verdict {
            Verdict::Settled => open.retain(|open| open.job != job),
            Verdict::Again(standing, wait) => {
                if let Some(open) = open.iter_mut().find(|open| open.job == job) {
                    open.standing = standing;
                    open.due = Some(now + wait);
                }
            }
            Verdict::Bury(death) => {
                if let Some(open) = open.iter_mut().find(|open| open.job == job) {
                    open.death = Some(death);
                }
            }
            Verdict::Stop(rejection) => self.given_up = Some((job, rejection)),
        }
    }

    /// What becomes of the message after a worker had it.
    pub fn end(&self, looked: bool) -> End {
        if self.given_up.is_some() {
            return End::Halt;
        }
        let open = match &self.open {
            Some(open) if open.is_empty() => return End::Settled,
            Some(open) => open.as_slice(),
            None => &[],
        };
        let fell = |open: &Open| {
            open.death.is_some() || open.standing.failures > 0 || open.standing.stumbles >= STUMBLES_TOGETHER
        };
        let at_once = open.iter().any(|open| open.due.is_none());
        let due = if at_once { None } else { open.iter().filter_map(|open| open.due).min() };
        End::Back(Back { due, alone: self.alone || open.iter().any(fell), looked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recalled(deaths: u32) -> Progress {
        let mut progress = Progress::default();
        progress.open(&[0]);
        let attempted = Attempted { deaths, runs: false, ..Attempted::default() };
        progress.recall(0, &attempted, Instant::now());
        progress
    }

    #[test]
    fn who_survived_alone_is_not_suspect_any_more() {
        let mut progress = recalled(KILLS);
        assert!(progress.is_suspect() && progress.is_killer(0));
        progress.survived(0);
        assert!(!progress.is_suspect() && !progress.is_killer(0));
    }

    #[test]
    fn who_waits_for_its_lane_keeps_nobody_else_waiting_and_its_deaths_stand() {
        let mut progress = recalled(1);
        progress.waits(0);
        assert!(!progress.is_suspect());
        assert_eq!(progress.deaths(0), 1);
    }
}
