//! A relay by itself, to be killed and stopped. Its log is on standard error.

use std::time::Duration;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), idempotent_jobs::Error> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "info,librdkafka=off".to_owned());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    let mut relay = idempotent_jobs::Relay::from_env().backoff(Duration::from_millis(10), Duration::from_millis(100));
    if let Ok(seconds) = std::env::var("RELAY_KEEPS_SENT") {
        relay = relay.keep_sent(Duration::from_secs(seconds.parse().expect("a number of seconds")));
    }
    relay.run().await
}
