//! A job in a crate of its own, as teams keep them (MAC-01).

use idempotent_jobs::prelude::*;
use serde::Deserialize;

/// A payload.
#[derive(Debug, Deserialize)]
pub struct Parcel {
    /// Its number.
    pub parcel: u64,
}

#[idempotent_job(topic = "parcels", key = "parcel")]
async fn distant(_tx: &mut SqliteTx, _parcel: Parcel) -> JobResult {
    Ok(())
}
