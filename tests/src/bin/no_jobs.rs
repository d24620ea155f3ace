//! No job is linked into this program.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), idempotent_jobs::Error> {
    idempotent_jobs::run().await
}
