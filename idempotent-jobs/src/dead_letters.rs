//! Dead letters: messages that cannot be processed, kept whole, and run again when that is mended.
//!
//! A message that its job gives up is written to the database before its offset moves: its key, payload and
//! headers byte for byte, where it lay, which rule it broke, and what was found. In the same transaction its
//! dedup key is claimed as *dead*, so that it is skipped, and not run, when Kafka delivers it again.
//!
//! ```no_run
//! use idempotent_jobs::dead_letters::{DeadLetters, Filter};
//!
//! # async fn example() -> Result<(), idempotent_jobs::Error> {
//! let letters = DeadLetters::connect("postgres://…").await?;
//! for letter in letters.list(&Filter::open().job("charge")).await? {
//!     println!("{} {} {}: {}", letter.id, letter.message.coordinates, letter.reason, letter.error);
//! }
//! // The handler is mended and deployed: its workers run them again, each once.
//! letters.redrive(&Filter::open().job("charge").reason("exhausted"), "ann@example.com").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Redrive
//! [`redrive`](DeadLetters::redrive) only asks. A worker that runs the job of its topic takes a requested letter within a second
//! or so, takes over the dead claim, enters the handler once, and marks the letter in the transaction of
//! the effects: *redriven* exactly when they are committed. Run again twice, it is a duplicate. One that fails
//! again is *open* again, the same letter with its history.
//!
//! A letter whose reason is a conflict has a key that belongs to another message. As long as that
//! one is done, or dead and not skipped, a redrive finds the conflict again.
//!
//! A letter that could not be read or keyed has no claim. It is read anew when it is run again. One that no
//! job took is given to the jobs that take its event by then, as a new message is.
//!
//! # Order
//! Later messages of the same Kafka message key went on when it died. A redrive comes after them, unless its job says
//! `on_exhausted = park`: then the later ones of its lane (the messages with the same Kafka message key, or with
//! `ordering = partition` all of the partition) wait behind it for that job, each written whole as a *parked* letter, while
//! everything else goes on. Once the first one is redriven or skipped, they are run in their order, each in
//! a transaction as a redrive has, and with all attempts of its job; one that fails holds the rest back again, as an open letter. [`parked`](DeadLetters::parked) lists the lanes.
//!
//! A parked letter cannot be redriven before its turn: decide on the one it waits behind. It can be skipped. What
//! need not be run is not parked: duplicates, and messages whose own option says what becomes of them (a conflict, a
//! tombstone). A message without a Kafka message key has nobody behind it, with `ordering = key`.
//!
//! A lane takes in `park_limit` messages (1,000 by default). Its next one waits in memory, uses no attempt, and
//! is told in the log once a minute; meanwhile its offset stays, and its partition is read no further than 10,000
//! messages beyond it.

mod export;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::store::{self, Access, LetterStore, Standing, StoreError};

pub use crate::store::{Change, DeadLetter, Filter, Foreseen, LetterState, ParkedLane};

/// The dead letters of a database.
pub struct DeadLetters {
    store: Arc<dyn LetterStore>,
}

/// A dead letter and what became of it since it was written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Shown {
    /// The letter.
    pub letter: DeadLetter,
    /// Its changes, the first one first.
    pub history: Vec<Change>,
}

/// What was done with a dead letter that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// As asked.
    Done,
    /// It stood so before, was changed by somebody else meanwhile, or is not what the filter means: as this.
    Stands(LetterState),
    /// There is no such letter.
    Unknown,
}

/// What is redriven, and what skipped; others stand as they are.
const TO_REDRIVE: &[LetterState] = &[LetterState::Open, LetterState::Skipped];
const TO_SKIP: &[LetterState] = &[LetterState::Open, LetterState::Requested, LetterState::Parked];

/// Letters read at a time.
const PAGE: u32 = 100;

impl DeadLetters {
    /// Those of this database, `postgres://…` or `sqlite://…`, whose tables are brought up to date.
    ///
    /// # Errors
    /// [`Error::Start`] says why it cannot be used.
    pub async fn connect(database_url: &str) -> Result<Self, Error> {
        Self::open(database_url, Access::Change).await
    }

    /// The same for a role that may only read, on PostgreSQL: nothing is brought up to date, and [`redrive`](Self::redrive)
    /// and [`skip`](Self::skip) fail. It needs `USAGE` on the schema `idempotent_jobs` and `SELECT` on its tables.
    ///
    /// # Errors
    /// [`Error::Start`] says why it cannot be used, such as tables that are not up to date.
    pub async fn connect_to_read(database_url: &str) -> Result<Self, Error> {
        Self::open(database_url, Access::Read).await
    }

    pub(crate) async fn open(database_url: &str, access: Access) -> Result<Self, Error> {
        let refused = |error| Error::Start(vec![format!("the database cannot be used: {error}")]);
        Ok(Self { store: store::open_letters(database_url, access).await.map_err(refused)? })
    }

    /// Those that fit, the oldest first; 100 unless the filter has another [limit](Filter::limit).
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn list(&self, filter: &Filter) -> Result<Vec<DeadLetter>, Error> {
        let filter = Filter { limit: filter.limit.or(Some(PAGE)), ..filter.clone() };
        self.store.list(&filter).await.map_err(failed)
    }

    /// One with its history.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn show(&self, id: i64) -> Result<Option<Shown>, Error> {
        let Some(letter) = self.list(&Filter::default().ids([id])).await?.pop() else { return Ok(None) };
        let history = self.store.history(id).await.map_err(failed)?;
        Ok(Some(Shown { letter, history }))
    }

    /// Asks workers to run those that fit again: the open ones, or, by number, those that were skipped as well. Says
    /// of each what became of that; `who` is kept in its history. Parked ones are left as they stand: they
    /// follow the one they wait behind. One that was skipped has left its lane, and is run whatever waits there.
    ///
    /// # Errors
    /// [`Error::Database`]; what was asked for before it stands.
    pub async fn redrive(&self, filter: &Filter, who: &str) -> Result<Vec<(i64, Answer)>, Error> {
        self.turn(filter, TO_REDRIVE, LetterState::Requested, who).await
    }

    /// Sets those that fit aside for good, unless they are redriven: the open ones, or, by number or by state, those that
    /// were to be run again, or are parked, as well. Their keys stay claimed, so that their messages stay skipped. When
    /// others are parked behind one, the next of them is run.
    ///
    /// # Errors
    /// [`Error::Database`]; those that were skipped before it are.
    pub async fn skip(&self, filter: &Filter, who: &str) -> Result<Vec<(i64, Answer)>, Error> {
        self.turn(filter, TO_SKIP, LetterState::Skipped, who).await
    }

    /// What [`skip`](Self::skip) would say of those that fit. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn would_skip(&self, filter: &Filter) -> Result<Vec<(i64, Answer)>, Error> {
        let mut answers = Vec::new();
        let mut pages = Pages::new(&undecided(filter));
        while let Some(page) = pages.next(&*self.store).await? {
            answers.extend(page.into_iter().map(|letter| match letter.state {
                state if TO_SKIP.contains(&state) => (letter.id, Answer::Done),
                state => (letter.id, Answer::Stands(state)),
            }));
        }
        let known = answers.iter().map(|(id, _)| *id).collect();
        answers.extend(self.others(filter, known).await?);
        Ok(answers)
    }

    /// What would become of those that fit if they were run again now, and of which [`redrive`](Self::redrive) would say
    /// that they stand as they are. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn foresee(&self, filter: &Filter) -> Result<Vec<(i64, Foreseen)>, Error> {
        let mut foreseen = Vec::new();
        let mut pages = Pages::new(&undecided(filter));
        while let Some(page) = pages.next(&*self.store).await? {
            for letter in page {
                let would = match letter.state {
                    // Parked, it waits behind the one to decide on.
                    state if TO_REDRIVE.contains(&state) || state == LetterState::Parked => {
                        self.store.foresee(&letter).await.map_err(failed)?
                    }
                    state => Foreseen::Stands(state),
                };
                foreseen.push((letter.id, would));
            }
        }
        let known = foreseen.iter().map(|(id, _)| *id).collect();
        let others = self.others(filter, known).await?.into_iter();
        foreseen.extend(others.map(|(id, answer)| match answer {
            Answer::Stands(state) => (id, Foreseen::Stands(state)),
            Answer::Done | Answer::Unknown => (id, Foreseen::Unknown),
        }));
        Ok(foreseen)
    }

    /// The lanes in which messages wait behind a dead letter, the oldest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn parked(&self) -> Result<Vec<ParkedLane>, Error> {
        self.store.parked().await.map_err(failed)
    }

    async fn turn(
        &self,
        filter: &Filter,
        from: &[LetterState],
        to: LetterState,
        who: &str,
    ) -> Result<Vec<(i64, Answer)>, Error> {
        let mut answers = Vec::new();
        let mut pages = Pages::new(&undecided(filter));
        while let Some(page) = pages.next(&*self.store).await? {
            for letter in page {
                let done = from.contains(&letter.state)
                    && self.store.change(letter.id, from, to, who).await.map_err(failed)?;
                let answer = if done { Answer::Done } else { self.stands(letter.id).await? };
                answers.push((letter.id, answer));
            }
        }
        let known = answers.iter().map(|(id, _)| *id).collect();
        answers.extend(self.others(filter, known).await?);
        Ok(answers)
    }

    /// The numbers that were given and are not among those that fit. Beyond a limit nothing was asked for.
    async fn others(&self, filter: &Filter, known: HashSet<i64>) -> Result<Vec<(i64, Answer)>, Error> {
        let mut others = Vec::new();
        for id in filter.ids.iter().flatten().filter(|id| filter.limit.is_none() && !known.contains(id)) {
            others.push((*id, self.stands(*id).await?));
        }
        Ok(others)
    }

    async fn stands(&self, id: i64) -> Result<Answer, Error> {
        let standing = self.standings(&[id]).await?.pop();
        Ok(standing.map_or(Answer::Unknown, |standing| Answer::Stands(standing.state)))
    }

    /// How letters stand, without their messages.
    pub(crate) async fn standings(&self, ids: &[i64]) -> Result<Vec<Standing>, Error> {
        self.store.standings(ids).await.map_err(failed)
    }
}

/// Without a state and without numbers, the open ones are meant.
fn undecided(filter: &Filter) -> Filter {
    let state = filter.state.or_else(|| filter.ids.is_none().then_some(LetterState::Open));
    Filter { state, ..filter.clone() }
}

/// What fits, page by page.
struct Pages {
    filter: Filter,
    left: u32,
}

impl Pages {
    fn new(filter: &Filter) -> Self {
        Self { filter: filter.clone(), left: filter.limit.unwrap_or(u32::MAX) }
    }

    async fn next(&mut self, store: &dyn LetterStore) -> Result<Option<Vec<DeadLetter>>, Error> {
        self.filter.limit = Some(PAGE.min(self.left));
        let page = store.list(&self.filter).await.map_err(failed)?;
        let Some(last) = page.last() else { return Ok(None) };
        self.filter.after = last.id;
        self.left -= u32::try_from(page.len()).unwrap_or(PAGE).min(self.left);
        Ok(Some(page))
    }
}

fn failed(error: StoreError) -> Error {
    Error::Database(error.to_string())
}

impl Filter {
    /// The open ones.
    pub fn open() -> Self {
        Self::default().state(LetterState::Open)
    }

    /// Only these numbers.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = i64>) -> Self {
        self.ids = Some(ids.into_iter().collect());
        self
    }

    /// Only of this job.
    #[must_use]
    pub fn job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// Only of this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Only of this [reason](crate::Reason), by its word: `exhausted`, `conflict`, …
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Only of this dedup key, in its text form: `["A1","charge"]`.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Only those that stand so.
    #[must_use]
    pub fn state(mut self, state: LetterState) -> Self {
        self.state = Some(state);
        self
    }

    /// Only those that were written longer ago than this.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older = Some(age);
        self
    }

    /// Only those that were written within this time.
    #[must_use]
    pub fn younger_than(mut self, age: Duration) -> Self {
        self.younger = Some(age);
        self
    }

    /// Only those behind this number: for the next page of a list.
    #[must_use]
    pub fn after(mut self, id: i64) -> Self {
        self.after = id;
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, letters: u32) -> Self {
        self.limit = Some(letters);
        self
    }
}
