//! Writes a dead letter with its claim.

use sqlx::{Database, Error};

use super::copy::copy;
use super::{Buried, Death};
use crate::error::Reason;
use crate::store::StoreError;
use crate::store::dialect::Dialect;
use crate::store::outcome::judge;

pub(in crate::store) const BURYING: &str = "writing a dead letter";

/// Within a transaction: only [`Buried::Written`] and [`Buried::Already`] leave something to commit.
///
/// Whoever claimed the key meanwhile decides, as for every claim. A conflict claims nothing: the key is
/// another message's, whose claim is not to be touched.
pub(in crate::store) async fn bury<DB: Dialect>(
    conn: &mut <DB as Database>::Connection,
    death: &Death<'_>,
) -> Result<Buried, StoreError> {
    let failed = |error: Error| StoreError::driver::<DB>(BURYING, error);
    if let Some(claim) = &death.claim
        && death.reason != Reason::Conflict
        && !DB::insert_dead(conn, claim).await.map_err(failed)?
    {
        return match DB::look(conn, claim).await.map_err(failed)?.map(|stored| judge(stored, claim)) {
            Some(claimed) => Ok(Buried::Seen(claimed)),
            None => Err(StoreError::transient(BURYING, "the row that held the key is gone: it was purged meanwhile")),
        };
    }
    let written = DB::write(conn, death).await.map_err(failed)?;
    if written && let Some(topic) = death.copy_to {
        // One that waits there already is the same: it is of these coordinates.
        DB::enqueue(conn, &[copy(death, topic)], &[]).await.map_err(failed)?;
    }
    Ok(if written { Buried::Written } else { Buried::Already })
}
