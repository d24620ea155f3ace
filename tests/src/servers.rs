//! The real servers, from the environment. Without them a test fails; it is never skipped.

use std::env;
use std::fs::File;

const HOW: &str = "run these tests by `tests/services/run with NAME -- COMMAND`, or all of them by `tests/run`";

/// The real Kafka's addresses.
///
/// # Panics
/// When `KAFKA_BROKERS` is not set.
pub fn brokers() -> String {
    env::var("KAFKA_BROKERS").unwrap_or_else(|_| panic!("KAFKA_BROKERS is not set: {HOW}"))
}

/// The real PostgreSQL's address.
///
/// # Panics
/// When `DATABASE_URL` is not set, or is another database's.
pub fn postgres() -> String {
    let url = env::var("DATABASE_URL").unwrap_or_else(|_| panic!("DATABASE_URL is not set: {HOW}"));
    assert!(url.starts_with("postgres"), "DATABASE_URL is not PostgreSQL's: {HOW}");
    url
}

/// The right to the topics of the real Kafka; given away when dropped.
pub struct Turn(#[expect(dead_code, reason = "held, not read")] File);

/// Waits for the turn. Topics are compile-time constants of the jobs, so tests of one broker go
/// one after the other, whichever process they are in.
pub(crate) fn turn() -> Turn {
    let name: String = brokers().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = env::temp_dir().join(format!("idempotent-jobs-turn-{name}"));
    let file = File::options().create(true).append(true).open(&path).expect("the temporary folder can be written");
    file.lock().expect("a file can be locked");
    Turn(file)
}
