//! Lanes that wait behind a dead letter.
//!
//! Invariant: while a lane has a row in `parked`, one of its letters is its head, open or requested; the others
//! that are undecided are parked, in the order of their places, and its job runs no message of it but the head.
//! A row goes when its last letter is decided.
//!
//! The row's lock is the one place where that is decided: whoever adds a letter, takes one away or lets the lane go holds
//! it, and looks only then. So nothing is parked behind a lane that was let go, and nothing runs ahead of
//! one that was not. Locks are taken in one order: the row, the letter, the claim of its message.

use std::future::Future;
use std::time::SystemTime;

use sqlx::{Database, Error};

use super::dialect::Dialect;
use super::letters::{BURYING, Buried, Death, LetterState};
use super::outcome::judge;
use super::slots::{ANSWER, within};
use super::{Claimed, StoreError};
use crate::message::Coordinates;

pub(super) const PARKING: &str = "parking a message behind a dead letter";
const RELEASING: &str = "letting the next message of a lane go";

/// What became of a message whose lane may wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parking {
    /// Its lane does not wait: it is to be run.
    Free,
    /// It waits in its lane now, as a letter.
    Parked,
    /// It was a letter before.
    Already,
    /// Its key is taken, and this is what its claim would find: it need not wait, since it is not run.
    Seen(Claimed),
    /// Its lane has no room, with so many waiting there.
    Full {
        /// How many.
        waiting: u32,
        /// The number of the letter they wait behind.
        head: i64,
    },
}

/// A lane that waits behind a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedLane {
    /// The job that parks it.
    pub job: String,
    /// The consumer group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The number of the letter behind which the others wait: decide on that one.
    pub head: i64,
    /// Whether that letter is to be run by a worker: then there is nothing to decide, and the others follow.
    pub head_requested: bool,
    /// The Kafka message key of that letter.
    pub key: Option<Vec<u8>>,
    /// How many messages wait behind it.
    pub waiting: u32,
    /// Since when the lane waits.
    pub since: SystemTime,
    /// Since when the lane takes no more messages in, so that its partition comes to stand still; `None`: it
    /// has room.
    pub full_since: Option<SystemTime>,
}

/// A lane's row, locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub(super) id: i64,
    pub(super) head: i64,
    pub(super) waiting: i64,
}

/// The SQL of parked lanes, in the mirrored files `parked.rs` of the databases.
pub trait ParkSql: Database {
    /// Makes the row of a message's lane: its number, or `None` when it was there.
    fn make_lane(
        conn: &mut Self::Connection,
        death: &Death<'_>,
        lane: &[u8; 32],
    ) -> impl Future<Output = Result<Option<i64>, Error>> + Send;
    /// The row of a lane, locked.
    fn hold_lane(
        conn: &mut Self::Connection,
        group: &str,
        job: &str,
        at: &Coordinates,
        lane: &[u8; 32],
    ) -> impl Future<Output = Result<Option<Held>, Error>> + Send;
    /// The row of the lane that a letter leads or waits in, locked.
    fn hold_lane_of(
        conn: &mut Self::Connection,
        letter: i64,
    ) -> impl Future<Output = Result<Option<Held>, Error>> + Send;
    /// The same without much patience; `Err` also when it was not got in time.
    fn try_lane_of(
        conn: &mut Self::Connection,
        letter: i64,
    ) -> impl Future<Output = Result<Option<Held>, Error>> + Send;
    /// The number of the letter of a death that was written, or was there.
    fn letter_of(conn: &mut Self::Connection, death: &Death<'_>) -> impl Future<Output = Result<i64, Error>> + Send;
    /// Makes a letter the first of a new lane.
    fn lead(conn: &mut Self::Connection, lane: i64, letter: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// Parks a letter at the end of its lane.
    fn enqueue_letter(
        conn: &mut Self::Connection,
        lane: i64,
        letter: i64,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Notes that a lane has no room, unless it was noted.
    fn fill(conn: &mut Self::Connection, lane: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// The first of the parked letters.
    fn first_parked(conn: &mut Self::Connection, lane: i64) -> impl Future<Output = Result<Option<i64>, Error>> + Send;
    /// One letter less is parked; there is room. The head is this one.
    fn shorten(conn: &mut Self::Connection, lane: i64, head: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// Lets the lane go.
    fn drop_lane(conn: &mut Self::Connection, lane: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// A letter that was set aside is no longer of its lane.
    fn part(conn: &mut Self::Connection, letter: i64) -> impl Future<Output = Result<(), Error>> + Send;
    /// Job and lane of all that wait of a partition.
    fn lanes_of(
        conn: &mut Self::Connection,
        group: &str,
        at: &Coordinates,
    ) -> impl Future<Output = Result<Vec<(String, Vec<u8>)>, Error>> + Send;
    /// All lanes, the oldest first.
    fn lanes(conn: &mut Self::Connection) -> impl Future<Output = Result<Vec<ParkedLane>, Error>> + Send;
    /// The head of the lane that a letter is parked in.
    fn head_of(conn: &mut Self::Connection, letter: i64) -> impl Future<Output = Result<Option<i64>, Error>> + Send;
}

/// The lane that a message which dies is to lead, made or found: what the letter of it is to become.
pub(super) struct Opened {
    id: i64,
    new: bool,
}

/// Locks the lane of a message that dies, before its letter is written.
pub(super) async fn open<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    death: &Death<'_>,
    lane: &[u8; 32],
) -> Result<Opened, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(BURYING, error);
    if let Some(id) = DB::make_lane(conn, death, lane).await.map_err(failed)? {
        return Ok(Opened { id, new: true });
    }
    let (job, at) = (death.job.unwrap_or_default(), &death.message.coordinates);
    match DB::hold_lane(conn, death.group, job, at, lane).await.map_err(failed)? {
        Some(held) => Ok(Opened { id: held.id, new: false }),
        None => Err(StoreError::transient(BURYING, "its lane was let go meanwhile")),
    }
}

/// Its letter is written: it leads its lane, or waits there behind the one that does. One that was there before may be
/// decided on long since, and a lane that was let go does not wait for it again.
pub(super) async fn opened<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    death: &Death<'_>,
    lane: &Opened,
    buried: &Buried,
) -> Result<(), StoreError> {
    let opened = async {
        if *buried != Buried::Written {
            return if lane.new { DB::drop_lane(conn, lane.id).await } else { Ok(()) };
        }
        let letter = DB::letter_of(conn, death).await?;
        if lane.new { DB::lead(conn, lane.id, letter).await } else { DB::enqueue_letter(conn, lane.id, letter).await }
    };
    opened.await.map_err(|error| StoreError::driver::<DB>(BURYING, error))
}

/// Within a transaction: writes a message whole as a letter that waits in its lane, if that one waits. Only `Parked`, `Already` and
/// `Full` leave something to commit.
///
/// Whoever claimed its key decides first, as for every claim: a duplicate need not wait.
pub(super) async fn park<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    death: &Death<'_>,
    lane: &[u8; 32],
    limit: u32,
) -> Result<Parking, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(PARKING, error);
    let (job, at) = (death.job.unwrap_or_default(), &death.message.coordinates);
    let Some(held) = DB::hold_lane(conn, death.group, job, at, lane).await.map_err(failed)? else {
        return Ok(Parking::Free);
    };
    if let Some(claim) = &death.claim
        && let Some(stored) = DB::look(conn, claim).await.map_err(failed)?
    {
        return Ok(Parking::Seen(judge(stored, claim)));
    }
    if held.waiting >= i64::from(limit) {
        DB::fill(conn, held.id).await.map_err(failed)?;
        return Ok(Parking::Full { waiting: u32::try_from(held.waiting).unwrap_or(u32::MAX), head: held.head });
    }
    if let Some(claim) = &death.claim
        && !DB::insert_dead(conn, claim).await.map_err(failed)?
    {
        return Err(StoreError::transient(PARKING, "its key was claimed meanwhile"));
    }
    // What it may have left as a suspect, or while its lane was full.
    DB::forget(conn, death.group, job, at).await.map_err(failed)?;
    if !DB::write(conn, death).await.map_err(failed)? {
        return Ok(Parking::Already);
    }
    let letter = DB::letter_of(conn, death).await.map_err(failed)?;
    DB::enqueue_letter(conn, held.id, letter).await.map_err(failed)?;
    Ok(Parking::Parked)
}

/// Locks the lane of a letter that is to be run. `false`: somebody else has it.
pub(super) async fn take<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    letter: i64,
) -> Result<bool, StoreError> {
    match DB::try_lane_of(conn, letter).await {
        Ok(_) => Ok(true),
        Err(error) if is_held::<DB>(&error) => Ok(false),
        Err(error) => Err(StoreError::driver::<DB>(RELEASING, error)),
    }
}

fn is_held<DB: Dialect>(error: &Error) -> bool {
    let failure = error.as_database_error().and_then(|error| error.try_downcast_ref::<DB::Failure>());
    failure.is_some_and(DB::held)
}

/// A letter was redriven or skipped in this transaction, which holds its lane. If it was the head, the
/// next one is to be run, or the lane goes.
pub(super) async fn left<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    lane: Held,
    letter: i64,
) -> Result<(), StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(RELEASING, error);
    if lane.head != letter {
        return DB::shorten(conn, lane.id, lane.head).await.map_err(failed);
    }
    let Some(next) = DB::first_parked(conn, lane.id).await.map_err(failed)? else {
        return DB::drop_lane(conn, lane.id).await.map_err(failed);
    };
    let (from, to) = ([LetterState::Parked], LetterState::Requested);
    if !DB::change_letter(conn, next, &from, to, None, Some("released")).await.map_err(failed)? {
        return Err(StoreError::transient(RELEASING, "the next letter of the lane is not parked"));
    }
    DB::shorten(conn, lane.id, next).await.map_err(failed)
}

/// Changes a letter as an operator asks, and what follows from that for its lane: whether it stood in one of `from`.
pub(super) async fn change<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    letter: i64,
    from: &[LetterState],
    to: LetterState,
    by: &str,
) -> Result<bool, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(RELEASING, error);
    let lane = DB::hold_lane_of(conn, letter).await.map_err(failed)?;
    if !DB::change_letter(conn, letter, from, to, Some(by), None).await.map_err(failed)? {
        return Ok(false);
    }
    if to == LetterState::Requested {
        DB::forget_redrive(conn, letter).await.map_err(failed)?;
    }
    match lane {
        Some(lane) if to == LetterState::Skipped => left::<DB>(conn, lane, letter).await?,
        // It was skipped, and is run by itself now.
        Some(lane) if lane.head != letter => DB::part(conn, letter).await.map_err(failed)?,
        _ => {}
    }
    Ok(true)
}

/// Which lanes of a partition wait, outside any transaction.
pub(super) async fn lanes_of<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    group: &str,
    at: &Coordinates,
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    const DOING: &str = "looking for parked lanes of a partition";
    let found = async { DB::lanes_of(conn, group, at).await.map_err(|error| StoreError::driver::<DB>(DOING, error)) };
    within(ANSWER, DOING, found).await
}
