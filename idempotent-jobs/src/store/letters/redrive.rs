//! Takes a dead claim over, and opens a dead letter again.

use sqlx::{Database, Error};

use super::copy::copy;
use super::{Again, DeadLetter, LetterState, Requested, Unkeyed};
use crate::message::Coordinates;
use crate::store::dialect::Dialect;
use crate::store::outcome::judge;
use crate::store::parked;
use crate::store::slots::{ANSWER, within};
use crate::store::{Claim, Claimed, StoreError};

const DOING: &str = "taking a dead claim over";
pub(in crate::store) const TAKING: &str = "taking a dead letter to run it again";
pub(in crate::store) const REOPENING: &str = "opening a dead letter again";

/// Which are to be run again, outside any transaction.
pub(in crate::store) async fn requested<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    after: i64,
    group: &str,
    jobs: &[&str],
    topics: &[&str],
) -> Result<Vec<Requested>, StoreError> {
    const DOING: &str = "looking for dead letters that are to be run again";
    let found = async {
        DB::requested(conn, after, group, jobs, topics)
            .await
            .map_err(|error: Error| StoreError::driver::<DB>(DOING, error))
    };
    within(ANSWER, DOING, found).await
}

/// Which have no claim, outside any transaction.
pub(in crate::store) async fn unkeyed<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    group: &str,
    from: &Coordinates,
) -> Result<Vec<Unkeyed>, StoreError> {
    const DOING: &str = "looking for dead letters of a partition";
    let found =
        async { DB::unkeyed(conn, group, from).await.map_err(|error: Error| StoreError::driver::<DB>(DOING, error)) };
    within(ANSWER, DOING, found).await
}

/// Locks one of them, and its lane.
pub(in crate::store) async fn take<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    id: i64,
) -> Result<Option<DeadLetter>, StoreError> {
    if !parked::take::<DB>(conn, id).await? {
        return Ok(None);
    }
    DB::take(conn, id).await.map_err(|error| StoreError::driver::<DB>(TAKING, error))
}

/// Marks the one that was locked, and lets the next one of its lane go.
pub(in crate::store) async fn redriven<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    id: i64,
    detail: Option<&str>,
) -> Result<(), StoreError> {
    let changed = DB::change_letter(conn, id, &[LetterState::Requested], LetterState::Redriven, None, detail);
    let failed = |error: Error| StoreError::driver::<DB>(TAKING, error);
    if !changed.await.map_err(failed)? {
        return Err(StoreError::transient(TAKING, "it is no longer requested"));
    }
    match DB::hold_lane_of(conn, id).await.map_err(failed)? {
        Some(lane) => parked::left::<DB>(conn, lane, id).await,
        None => Ok(()),
    }
}

/// The dedup insert of a message that is run again: a claim that died with it is no obstacle, and
/// neither is one of a dead letter that was skipped. `Fresh`: the key is this transaction's, and done.
pub(in crate::store) async fn supersede<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    claim: &Claim<'_>,
) -> Result<Claimed, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(DOING, error);
    if DB::insert(conn, claim).await.map_err(failed)? {
        return Ok(Claimed::Fresh);
    }
    let Some(stored) = DB::hold(conn, claim).await.map_err(failed)? else {
        return Err(StoreError::transient(DOING, "the row that held the key is gone: it was purged meanwhile"));
    };
    let (dead, fingerprint) = (stored.dead, stored.fingerprint.clone());
    let claimed = judge(stored, claim);
    let free = match claimed {
        Claimed::Dead => true,
        Claimed::Conflict { .. } if dead => !DB::is_undecided(conn, claim, &fingerprint).await.map_err(failed)?,
        _ => false,
    };
    if !free {
        return Ok(claimed);
    }
    DB::take_over(conn, claim).await.map_err(failed)?;
    Ok(Claimed::Fresh)
}

/// A message that was run again died again: its letter is open, with the new reason. Its key is
/// claimed as dead if it has one by now and nobody else does. Whether the letter was still
/// to be run.
pub(in crate::store) async fn reopen<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    id: i64,
    again: &Again<'_>,
) -> Result<bool, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(REOPENING, error);
    let (from, detail) = ([LetterState::Requested], format!("{}: {}", again.rejection.reason, again.rejection.detail));
    if !DB::change_letter(conn, id, &from, LetterState::Open, None, Some(&detail)).await.map_err(failed)? {
        return Ok(false);
    }
    DB::died(conn, id, again).await.map_err(failed)?;
    if let Some(claim) = &again.claim
        && DB::insert_dead(conn, claim).await.map_err(failed)?
    {
        DB::key_letter(conn, id, claim).await.map_err(failed)?;
    }
    if let Some((death, topic)) = again.first.and_then(|death| Some((death, death.copy_to?))) {
        DB::enqueue(conn, &[copy(death, topic)], &[]).await.map_err(failed)?;
    }
    Ok(true)
}
