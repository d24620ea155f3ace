//! What outlives a process: attempts that failed, and who works on a partition.
//!
//! Invariant: a row of `attempts` with a runner is of an attempt that was the only one of its process from
//! before any of the user's code ran. So whoever is next assigned its partition and finds it knows what that
//! process died of, unless the attempt still goes on: then its transaction holds the row, and nothing is counted.

use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Error};

use super::StoreError;
use super::dialect::Dialect;
use super::letters::digest;
use crate::message::{Coordinates, Message};

pub(super) const TAKING: &str = "taking partitions over";
pub(super) const LETTING: &str = "letting partitions go";
/// Between a note and the lock of its letter, and between the end of a run and the note of that: for so long nobody is
/// taken for dead, and then for so long again, in which the letter was found free and nothing was heard.
pub const RECENT: Duration = Duration::from_secs(5);
pub(super) const NOTING: &str = "noting an attempt";

/// Messages of a partition from its first unsettled one on: behind a message that does not get done the others go on so
/// far. So an owner that died, died of nothing that lies further behind where it began, unless it got on.
pub const SPAN: usize = 10_000;

/// From the beginning of an owner that died to that of the next. A process that dies again and again is started again
/// sooner: Kubernetes waits five minutes at most.
const STREAK: Duration = Duration::from_secs(600);

/// A partition that was assigned, before the first of its messages runs.
#[derive(Debug, Clone, Copy)]
pub struct Taking<'a> {
    /// The first message that was read.
    pub from: &'a Coordinates,
    /// The process and its assignment, of a form that no other has.
    pub owner: &'a str,
}

/// What earlier owners of a partition left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many owners in a row died of what may lie before this position still.
    pub deaths: u32,
    /// Messages that failed, or that processes died of.
    pub attempts: Vec<Attempted>,
}

/// What is known of a message that failed before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempted {
    /// Where it lies in its partition.
    pub offset: i64,
    /// The job.
    pub job: String,
    /// Attempts that failed and count.
    pub failures: u32,
    /// Processes that died in an attempt that ran by itself.
    pub deaths: u32,
    /// An attempt of another owner, who may be asleep, goes on.
    pub runs: bool,
    /// It is not run before so long has passed.
    pub wait: Duration,
    /// [Of the message](Attempted::is).
    pub(crate) digest: Vec<u8>,
}

impl Attempted {
    /// Whether it is this message of its partition.
    pub fn is(&self, message: &Message) -> bool {
        self.offset == message.coordinates.offset && self.digest == digest(message)
    }
}

/// A message as one job of a group tries it.
#[derive(Debug, Clone, Copy)]
pub struct Tried<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The job.
    pub job: &'a str,
    /// The message.
    pub message: &'a Message,
}

/// How the run of a dead letter ended, in case that is to be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redrive {
    /// It ran, and the process lives.
    pub survived: bool,
    /// Attempts that failed and count since it was requested.
    pub failures: u32,
    /// Not before so long has passed.
    pub wait: Duration,
}

/// What is known of a dead letter that is to be run again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Processes that died of it.
    pub deaths: u32,
    /// Attempts that failed and count since it was requested.
    pub failures: u32,
}

/// What is noted of the run of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedRun {
    pub(super) runner: Option<String>,
    pub(super) known: Redriven,
    /// It is not to be run later only.
    pub(super) is_due: bool,
    /// Since the runner said that it is about to run it.
    pub(super) noted: Duration,
    /// Since somebody found it free nevertheless.
    pub(super) free: Option<Duration>,
}

impl NotedRun {
    /// `noted` and `free`: the milliseconds of a row, which a clock that was set back makes negative.
    pub(super) fn new(
        runner: Option<String>,
        known: Redriven,
        is_due: bool,
        (noted, free): (i64, Option<i64>),
    ) -> Self {
        let since = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        Self { runner, known, is_due, noted: since(noted), free: free.map(since) }
    }
}

/// What follows from it for another process, or for the same.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// It is not to be run, or not yet.
    Rests,
    /// Its runner may have died: that shows when nothing is heard of it.
    Doubts,
    Runs(Redriven),
}

/// The letter is free. A run holds its lock; before and behind it a living runner comes to say more.
fn turn(noted: Option<NotedRun>, process: &str) -> Turn {
    let Some(NotedRun { runner, known, is_due, noted, free }) = noted else { return Turn::Runs(Redriven::default()) };
    match (runner, free) {
        _ if !is_due => Turn::Rests,
        (None, _) => Turn::Runs(known),
        (Some(runner), _) if runner == process => Turn::Runs(known),
        _ if noted < RECENT => Turn::Rests,
        (_, None) => Turn::Doubts,
        (_, Some(free)) if free < RECENT => Turn::Rests,
        _ => Turn::Runs(Redriven { deaths: known.deaths.saturating_add(1), ..known }),
    }
}

/// What is to be remembered.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// This owner is about to run it, and nothing beside it.
    Runs(&'a str),
    /// It is to be run again.
    Waits {
        /// The owner that ran it.
        owner: &'a str,
        /// Attempts that failed and count.
        failures: u32,
        /// Not before so long has passed.
        wait: Duration,
        /// What went wrong in the last one.
        error: Option<&'a str>,
        /// It ran with nothing beside it, and the process lives: nothing that died before died of it.
        survived: bool,
    },
    /// Nothing.
    Settled,
}

/// Who was found to work on a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) owner: String,
    pub(super) position: i64,
    pub(super) deaths: u32,
    /// Since it took the partition over.
    pub(super) age: Duration,
}

/// The SQL of attempts and owners, in the mirrored files `attempts.rs` of the databases.
pub trait AttemptSql: Database {
    /// The owners of these partitions, locked in one order.
    fn owners(
        conn: &mut Self::Connection,
        group: &str,
        takings: &[Taking<'_>],
    ) -> impl Future<Output = Result<Vec<Found>, Error>> + Send;
    /// Makes them the new ones, each with its deaths.
    fn own(
        conn: &mut Self::Connection,
        group: &str,
        takings: &[Taking<'_>],
        deaths: &[u32],
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Deletes what is known of messages below the first ones.
    fn sweep(
        conn: &mut Self::Connection,
        group: &str,
        takings: &[Taking<'_>],
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Takes the runner from each message whose attempt does not go on. Where that is the owner that was found, and not
    /// this process, it died of it, which is counted: one that let its partition go ended in order.
    fn count_deaths(
        conn: &mut Self::Connection,
        group: &str,
        process: &str,
        takings: &[Taking<'_>],
        owners: &[Option<&str>],
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// What is known of messages of these partitions, with topic and partition.
    fn attempts(
        conn: &mut Self::Connection,
        group: &str,
        takings: &[Taking<'_>],
    ) -> impl Future<Output = Result<Vec<(String, i32, Attempted)>, Error>> + Send;
    /// Deletes the rows of these owners, if they are still theirs, and their names from messages that no
    /// longer run.
    fn disown(
        conn: &mut Self::Connection,
        group: &str,
        owned: &[Taking<'_>],
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Writes that it is about to run.
    fn runs(
        conn: &mut Self::Connection,
        tried: &Tried<'_>,
        digest: &[u8],
        owner: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Writes that it is to be run again. Another owner's name stays, and so does a higher count.
    fn waits(
        conn: &mut Self::Connection,
        tried: &Tried<'_>,
        digest: &[u8],
        waits: Waits<'_>,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Locks a dead letter that is to be run again: whether it is free.
    fn lock_letter(conn: &mut Self::Connection, id: i64) -> impl Future<Output = Result<bool, Error>> + Send;
    /// What is noted of its run, locked.
    fn noted_run(conn: &mut Self::Connection, id: i64) -> impl Future<Output = Result<Option<NotedRun>, Error>> + Send;
    /// Notes that it was found free, though a run of it is noted.
    fn doubt_run(conn: &mut Self::Connection, id: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// Notes that this process is about to run it, and what is known of it.
    fn note_run(
        conn: &mut Self::Connection,
        id: i64,
        process: &str,
        known: Redriven,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Notes that it no longer does. What is known of the letter goes when that is no longer to be run.
    fn redrive_ended(
        conn: &mut Self::Connection,
        id: i64,
        process: &str,
        ended: Redrive,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
    /// A person asks for it: nothing is known of it any more.
    fn forget_redrive(conn: &mut Self::Connection, id: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// Notes that this process runs no letter.
    fn redrives_ended(conn: &mut Self::Connection, process: &str) -> impl Future<Output = Result<(), Error>> + Send;
    /// Deletes what is known of a message.
    fn forget(
        conn: &mut Self::Connection,
        group: &str,
        job: &str,
        at: &Coordinates,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The values of [`Note::Waits`].
#[derive(Debug, Clone, Copy)]
pub struct Waits<'a> {
    pub(super) owner: &'a str,
    pub(super) failures: u32,
    pub(super) wait: Duration,
    pub(super) error: Option<&'a str>,
    pub(super) survived: bool,
}

/// How many owners in a row died of what may be one message, when a partition is taken over at this position.
///
/// An owner's row is there because it died, or because it sleeps, or because it was this process itself, in
/// an assignment that ended without a word. One that got on has not left its killer behind yet: a message that kills
/// as soon as it is met lets each owner do some of those before it. Of one that was far, or lived long, nobody knows.
fn deaths(found: Option<&Found>, process: &str, position: i64) -> u32 {
    let Some(found) = found else { return 0 };
    let goes_on = match position.checked_sub(found.position) {
        Some(0) => true,
        Some(moved) => (1..SPAN as i64).contains(&moved) && found.age < STREAK,
        None => false,
    };
    let before = if goes_on { found.deaths } else { 0 };
    before.saturating_add(u32::from(!found.owner.starts_with(process)))
}

/// Within a transaction.
pub(super) async fn take_over<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    group: &str,
    process: &str,
    takings: &[Taking<'_>],
) -> Result<Vec<Taken>, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(TAKING, error);
    let owners = DB::owners(conn, group, takings).await.map_err(failed)?;
    let owner = |taking: &Taking<'_>| owners.iter().find(|it| is_of(&it.topic, it.partition, taking));
    let deaths: Vec<u32> = takings.iter().map(|taking| deaths(owner(taking), process, taking.from.offset)).collect();
    DB::own(conn, group, takings, &deaths).await.map_err(failed)?;
    DB::sweep(conn, group, takings).await.map_err(failed)?;
    let found: Vec<Option<&str>> = takings.iter().map(|taking| owner(taking).map(|it| &*it.owner)).collect();
    DB::count_deaths(conn, group, process, takings, &found).await.map_err(failed)?;
    let mut all = DB::attempts(conn, group, takings).await.map_err(failed)?;
    let taken = takings.iter().zip(deaths).map(|(taking, deaths)| {
        let its = all.extract_if(.., |(topic, partition, _)| is_of(topic, *partition, taking));
        Taken { deaths, attempts: its.map(|(_, _, attempted)| attempted).collect() }
    });
    Ok(taken.collect())
}

fn is_of(topic: &str, partition: i32, taking: &Taking<'_>) -> bool {
    *taking.from.topic == *topic && taking.from.partition == partition
}

/// Within a transaction.
pub(super) async fn let_go<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    group: &str,
    owned: &[Taking<'_>],
) -> Result<(), StoreError> {
    DB::disown(conn, group, owned).await.map_err(|error| StoreError::driver::<DB>(LETTING, error))
}

/// Within a transaction: notes that this process is about to run a dead letter, and counts a death if another one's
/// note was there. `None`: it is not to be run, or not yet, or another has it, or may have.
pub(super) async fn note_redrive<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    id: i64,
    process: &str,
) -> Result<Option<Redriven>, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(NOTING, error);
    if !DB::lock_letter(conn, id).await.map_err(failed)? {
        return Ok(None);
    }
    match turn(DB::noted_run(conn, id).await.map_err(failed)?, process) {
        Turn::Rests => Ok(None),
        Turn::Doubts => DB::doubt_run(conn, id).await.map_err(failed).map(|()| None),
        Turn::Runs(known) => DB::note_run(conn, id, process, known).await.map_err(failed).map(|()| Some(known)),
    }
}

/// Within a transaction.
pub(super) async fn note<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    tried: &Tried<'_>,
    note: Note<'_>,
) -> Result<(), StoreError> {
    let noted = match note {
        Note::Runs(owner) => DB::runs(conn, tried, &digest(tried.message), owner).await,
        Note::Waits { owner, failures, wait, error, survived } => {
            DB::waits(conn, tried, &digest(tried.message), Waits { owner, failures, wait, error, survived }).await
        }
        Note::Settled => DB::forget(conn, tried.group, tried.job, &tried.message.coordinates).await,
    };
    noted.map_err(|error| StoreError::driver::<DB>(NOTING, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(owner: &str, position: i64, deaths: u32) -> Found {
        Found { topic: "t".into(), partition: 0, owner: owner.into(), position, deaths, age: Duration::ZERO }
    }

    #[test]
    fn deaths_are_counted_while_they_may_be_of_one_message() {
        assert_eq!(deaths(None, "me", 5), 0);
        assert_eq!(deaths(Some(&found("other/1", 5, 0)), "me", 5), 1);
        assert_eq!(deaths(Some(&found("other/1", 5, 1)), "me", 5), 2);
        assert_eq!(deaths(Some(&found("other/1", 4, 1)), "me", 5), 2, "it got on a little before it died");
        let span = SPAN as i64;
        assert_eq!(deaths(Some(&found("other/1", 5, 7)), "me", 4 + span), 8);
        assert_eq!(deaths(Some(&found("other/1", 5, 7)), "me", 5 + span), 1, "what killed the ones before is done");
        let old = |position| Found { age: STREAK, ..found("other/1", position, 7) };
        assert_eq!(deaths(Some(&old(4)), "me", 5), 1, "it lived long before it died");
        assert_eq!(deaths(Some(&old(5)), "me", 5), 8, "and got nothing done");
        assert_eq!(deaths(Some(&found("other/1", 6, 7)), "me", 5), 1, "offsets were reset");
        assert_eq!(deaths(Some(&found("other/1", i64::MIN, 7)), "me", i64::MAX), 1);
    }

    #[test]
    fn a_run_ends_with_a_death_when_nothing_is_heard_of_it_twice() {
        let known = Redriven { deaths: 1, failures: 2 };
        let noted = |runner: Option<&str>, is_due, noted: u64, free: Option<u64>| {
            let (noted, free) = (Duration::from_secs(noted), free.map(Duration::from_secs));
            turn(Some(NotedRun { runner: runner.map(str::to_owned), known, is_due, noted, free }), "me/")
        };
        assert_eq!(turn(None, "me/"), Turn::Runs(Redriven::default()));
        assert_eq!(noted(None, false, 99, None), Turn::Rests, "not yet");
        assert_eq!(noted(None, true, 0, None), Turn::Runs(known), "its last run ended in order");
        assert_eq!(noted(Some("me/"), true, 0, None), Turn::Runs(known), "this process lives");
        assert_eq!(noted(Some("other/"), true, 4, None), Turn::Rests, "about to lock it");
        // A run of fifteen seconds that ends now, and is not noted as ended yet.
        assert_eq!(noted(Some("other/"), true, 15, None), Turn::Doubts);
        assert_eq!(noted(Some("other/"), true, 19, Some(4)), Turn::Rests);
        assert_eq!(noted(Some("other/"), true, 20, Some(5)), Turn::Runs(Redriven { deaths: 2, failures: 2 }));
    }

    #[test]
    fn who_lives_did_not_die() {
        assert_eq!(deaths(Some(&found("me/1", 5, 0)), "me", 5), 0);
        assert_eq!(deaths(Some(&found("me/1", 5, 2)), "me", 5), 2, "what was found before still holds");
        assert_eq!(deaths(Some(&found("me/1", 4, 2)), "me", 5), 2);
        assert_eq!(deaths(Some(&found("me/1", 5, 2)), "me", 5 + SPAN as i64), 0);
    }
}
