//! The crate with the jobs is a dependency and nothing names it: the linker drops it. The
//! program's own job is there, so that only the expectation tells.

use idempotent_jobs::prelude::*;

#[derive(Debug, serde::Deserialize)]
struct Parcel {
    parcel: u64,
}

#[idempotent_job(topic = "parcels", key = "parcel")]
async fn near(_tx: &mut SqliteTx, _: Parcel) -> JobResult {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), idempotent_jobs::Error> {
    idempotent_jobs::Worker::from_env().expect_jobs(["distant"]).run().await
}
