//! The crate with the jobs is named once, as the documentation says.

use distant_jobs as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), idempotent_jobs::Error> {
    idempotent_jobs::Worker::from_env().expect_jobs(["distant"]).run().await
}
