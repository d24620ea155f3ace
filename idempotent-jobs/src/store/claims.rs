//! Claims of several messages of one job at once.

use std::collections::{HashMap, HashSet};

use sqlx::{Database, Error};

use super::dialect::Dialect;
use super::outcome::{Stored, judge};
use super::slots::{ANSWER, within};
use super::{Claim, Claimed, StoreError};

/// The dedup inserts, and what stands in the way of those that found their key taken.
pub(super) async fn claim<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    claims: &[Claim<'_>],
) -> Result<Vec<Claimed>, StoreError> {
    const DOING: &str = "claiming the keys";
    debug_assert!(differ(claims), "the keys of one call differ, and its job is one");
    let failed = |error: Error| StoreError::driver::<DB>(DOING, error);
    let free = DB::insert_all(conn, claims).await.map_err(failed)?;
    if free.len() == claims.len() {
        return Ok(vec![Claimed::Fresh; claims.len()]);
    }
    let free: HashSet<String> = free.into_iter().collect();
    let taken: Vec<_> = claims.iter().filter(|claim| !free.contains(&*claim.key.stored())).copied().collect();
    let stored = DB::look_all(conn, &taken).await.map_err(failed)?;
    let find = |claim: &Claim<'_>| {
        if free.contains(&*claim.key.stored()) {
            return Ok(Claimed::Fresh);
        }
        let gone = || StoreError::transient(DOING, "a row that held a key is gone: it was purged meanwhile");
        judged(&stored, claim).ok_or_else(gone)
    };
    claims.iter().map(find).collect()
}

/// What the claims would find, outside any transaction.
pub(super) async fn seen<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    claims: &[Claim<'_>],
) -> Result<Vec<Claimed>, StoreError> {
    const DOING: &str = "looking for keys";
    let looking =
        async { DB::look_all(conn, claims).await.map_err(|error: Error| StoreError::driver::<DB>(DOING, error)) };
    let stored = within(ANSWER, DOING, looking).await?;
    Ok(claims.iter().map(|claim| judged(&stored, claim).unwrap_or(Claimed::Fresh)).collect())
}

fn judged(stored: &HashMap<String, Stored>, claim: &Claim<'_>) -> Option<Claimed> {
    stored.get(&*claim.key.stored()).map(|stored| judge(stored.clone(), claim))
}

fn differ(claims: &[Claim<'_>]) -> bool {
    let mut keys = HashSet::new();
    claims.iter().all(|claim| keys.insert(claim.key.stored()) && claim.job == claims[0].job)
}
