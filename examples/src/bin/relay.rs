//! The relay as a program of its own: for services that enqueue and have no worker.
//!
//! ```sh
//! DATABASE_URL=postgres://… KAFKA_BROKERS=… cargo run --bin relay
//! ```
//!
//! Run as many as you like, anywhere: they share the work, and each takes over from one that dies.

use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> Result<(), idempotent_jobs::Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    idempotent_jobs::Relay::from_env().run().await
}
