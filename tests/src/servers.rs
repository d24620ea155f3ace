//! The real servers, from the environment. Without them a test fails; it is never skipped.

use std::env;
use std::fs::File;
use std::process::Command;

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

/// A real server goes away and comes back, in the set of servers that this test was started with.
pub struct Outage {
    set: String,
    service: &'static str,
    back: bool,
}

impl Outage {
    /// Stops the broker; it is started again at the latest when this is dropped.
    pub fn of_kafka() -> Self {
        Self::begin("kafka")
    }

    /// Stops the database; it is started again at the latest when this is dropped.
    pub fn of_postgres() -> Self {
        Self::begin("postgres")
    }

    /// # Panics
    /// When the set is not found, or the server does not stop.
    fn begin(service: &'static str) -> Self {
        let set = set(&brokers()).expect("the brokers are of a set of tests/services");
        order("stop", &set, service);
        Self { set, service, back: false }
    }

    /// Starts the server again.
    pub fn end(mut self) {
        self.bring_back();
    }

    fn bring_back(&mut self) {
        if !self.back {
            self.back = true;
            order("start", &self.set, self.service);
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.bring_back();
    }
}

fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

fn order(what: &str, set: &str, service: &str) {
    let run = root().join("tests/services/run");
    let status = Command::new(run).args([what, set, service]).status().expect("tests/services/run is there");
    assert!(status.success(), "{what} {set} {service}: {status}");
}

/// The set whose address that is.
fn set(servers: &str) -> Option<String> {
    let services =
        std::env::var_os("IDEMPOTENT_JOBS_SERVICES").map_or_else(|| root().join("target/services"), Into::into);
    let sets = std::fs::read_dir(services.join("sets")).ok()?.flatten();
    let its = |env: String| env.lines().any(|line| line == format!("KAFKA_BROKERS={servers}"));
    let mut names = sets.filter(|set| std::fs::read_to_string(set.path().join("env")).is_ok_and(its));
    Some(names.next()?.file_name().to_string_lossy().into_owned())
}
