//! The crate with the jobs is a dependency and nothing names it: the linker drops it.



#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), idempotent_jobs::Error> {
    idempotent_jobs::Worker::from_env().expect_jobs(["distant"]).run().await
}
