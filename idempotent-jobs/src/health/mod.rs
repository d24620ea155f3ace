//! Whether a worker does its work, for whoever restarts and rolls out processes.
//!
//! ```no_run
//! use idempotent_jobs::Worker;
//! use idempotent_jobs::health::Health;
//!
//! # async fn example() -> Result<(), idempotent_jobs::Error> {
//! let health = Health::new();
//! let probe = health.clone();
//! // With axum, which is not part of this library:
//! //   .route("/live", get(move || async move { status(probe.live()) }))
//! //   .route("/ready", get(move || async move { status(probe.ready()) }))
//! //   fn status(health: Result<(), Unwell>) -> (StatusCode, String) {
//! //       health.map_or_else(|why| (StatusCode::SERVICE_UNAVAILABLE, why.to_string()), |()| (StatusCode::OK, "ok".into()))
//! //   }
//! # drop(probe);
//! Worker::from_env().health(health).run().await
//! # }
//! ```
//!
//! Both questions are answered from memory, at once, and in any thread.
//!
//! * [`live`](Health::live): restart the process when it is not. A database or brokers that are away are no
//!   reason: a restart would not bring them back.
//! * [`ready`](Health::ready): it does all of its work now. It is not while anything is wrong that a person
//!   may want to know of, so that a roll-out stops before the last good process is replaced.
//!
//! What was found of the group's offsets, and stopped nothing, is a [notice](Health::notices): history that a database lost and
//! that is read again, an offset that was moved. It makes nobody unready: it is over when it is told.
//!
//! A member that the group gives no partition, since there are more members than partitions, is ready.

mod notice;
mod vitals;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use self::notice::Notice;
use self::vitals::{Phase, Vitals};

/// How one worker is. Clones are of the same worker; give each worker its own.
#[derive(Clone, Default)]
pub struct Health(Arc<Inner>);

#[derive(Default)]
struct Inner {
    vitals: Mutex<Vitals>,
    /// Attempts in a row that failed for reasons that pass. Apart from the rest: every attempt looks at it.
    stumbles: AtomicU32,
}

/// What is wrong with a worker. `Display` says what it is and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Symptom {
    /// It has not started yet.
    Starting,
    /// It was told to end, and ends.
    Stopping,
    /// It ended.
    Ended,
    /// Its consumer's thread does not poll.
    NotPolling(Duration),
    /// Its group does not count on it: it has yet to join, or was put out.
    NoAssignment,
    /// The database does not answer.
    DatabaseAway(Duration),
    /// So many attempts in a row failed for reasons that pass.
    Stumbling(u32),
    /// A message does not get done, and its partition is read no further.
    HeldUp {
        /// The topic.
        topic: String,
        /// The partition, from 0.
        partition: i32,
        /// The message's offset.
        offset: i64,
    },
    /// Work is done whose offset could not be committed for so long.
    Uncommitted {
        /// The topic.
        topic: String,
        /// The partition, from 0.
        partition: i32,
        /// Since it was done.
        age: Duration,
    },
    /// So many messages wait behind a dead letter of a lane that it takes in no more.
    LaneFull {
        /// The job that parks it.
        job: &'static str,
        /// The topic.
        topic: String,
        /// The partition, from 0.
        partition: i32,
        /// How many messages wait.
        waiting: u32,
    },
    /// A partition may not be read from where it is to be read: keys are missing that keep its messages single.
    MissingKeys {
        /// The topic.
        topic: String,
        /// The partition, from 0.
        partition: i32,
        /// What was found, with its offsets, and what to do.
        why: String,
    },
    /// The relay does not reach the brokers.
    RelayCutOff(Duration),
    /// The oldest record that the relay has to send is so old.
    RelayBehind(Duration),
}

impl Symptom {
    /// A word that stays the same, for scripts.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
            Self::NotPolling(_) => "not_polling",
            Self::NoAssignment => "no_assignment",
            Self::DatabaseAway(_) => "database_away",
            Self::Stumbling(_) => "stumbling",
            Self::HeldUp { .. } => "held_up",
            Self::Uncommitted { .. } => "uncommitted",
            Self::LaneFull { .. } => "lane_full",
            Self::MissingKeys { .. } => "missing_keys",
            Self::RelayCutOff(_) => "relay_cut_off",
            Self::RelayBehind(_) => "relay_behind",
        }
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("it has not started yet"),
            Self::Stopping => f.write_str("it was told to end, and finishes what runs"),
            Self::Ended => f.write_str("the worker ended: its error says why"),
            Self::NotPolling(time) => {
                write!(f, "its consumer has not polled for {} s: the process sleeps, or hangs", time.as_secs())
            }
            Self::NoAssignment => f.write_str("it is no member of its group: the brokers are away, or refuse it"),
            Self::DatabaseAway(time) => {
                write!(
                    f,
                    "the database has not answered for {} s: its messages wait, and nothing is lost",
                    time.as_secs()
                )
            }
            Self::Stumbling(attempts) => write!(
                f,
                "{attempts} attempts in a row failed for reasons that pass (the database, mostly): the log has them"
            ),
            Self::HeldUp { topic, partition, offset } => write!(
                f,
                "topic {topic}, partition {partition}: the message at offset {offset} does not get done, and its partition is \
                 read no further: if its lane is full, `idempotent-jobs dead-letters parked`; else its log lines say why: mend \
                 its job, or deploy one that answers it with `.terminal()`, which makes it a dead letter"
            ),
            Self::Uncommitted { topic, partition, age } => write!(
                f,
                "topic {topic}, partition {partition}: what is done could not be committed for {} s: the brokers are away, or \
                 the user may not commit (Read on the group)",
                age.as_secs()
            ),
            Self::LaneFull { job, topic, partition, waiting } => write!(
                f,
                "topic {topic}, partition {partition}: {waiting} messages of a lane of job {job} wait behind a dead letter, it takes \
                 in no more, and its partition comes to stand still: `idempotent-jobs dead-letters parked` names the letter to \
                 decide on"
            ),
            // It names the partition.
            Self::MissingKeys { why, .. } => f.write_str(why),
            Self::RelayCutOff(time) => write!(f, "the relay has not reached the brokers for {} s", time.as_secs()),
            Self::RelayBehind(age) => {
                write!(f, "the oldest record to be sent is {} s old: `idempotent-jobs doctor` says more", age.as_secs())
            }
        }
    }
}

/// What is wrong with a worker, all of it; one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwell(pub Vec<Symptom>);

impl fmt::Display for Unwell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, symptom) in self.0.iter().enumerate() {
            let line = if index == 0 { "" } else { "\n" };
            write!(f, "{line}{}: {symptom}", symptom.as_str())?;
        }
        Ok(())
    }
}

impl std::error::Error for Unwell {}

impl Health {
    /// Of a worker that is yet to be started with it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the process is to live on.
    ///
    /// # Errors
    /// Its consumer has hung for a minute, or the worker ended.
    pub fn live(&self) -> Result<(), Unwell> {
        well(self.vitals().fatal(Instant::now()))
    }

    /// Whether it does all of its work now.
    ///
    /// # Errors
    /// Everything that keeps it from that.
    pub fn ready(&self) -> Result<(), Unwell> {
        well(self.vitals().symptoms(Instant::now(), self.0.stumbles.load(Ordering::Relaxed)))
    }

    /// What was found of the group's offsets at this worker's assignments, the latest of each kind and partition; it stays until
    /// the process ends.
    pub fn notices(&self) -> Vec<Notice> {
        self.vitals().notices.values().cloned().collect()
    }

    fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.0.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer is there.
    pub(crate) fn started(&self) {
        self.vitals().start(Instant::now());
    }

    pub(crate) fn stopping(&self) {
        self.vitals().enter(Phase::Stopping);
    }

    /// Says that it ended when this is dropped, however that came.
    pub(crate) fn until_dropped(&self) -> Alive {
        Alive(self.clone())
    }

    pub(crate) fn polled(&self) {
        self.vitals().polled = Some(Instant::now());
    }

    /// Whether its group counts on it.
    pub(crate) fn member(&self, is_member: bool) {
        self.vitals().member = is_member;
    }

    /// These partitions are no longer its own.
    pub(crate) fn gone<'a>(&self, partitions: impl Iterator<Item = (&'a Arc<str>, i32)>) {
        self.vitals().gone(partitions);
    }

    /// The database was asked, and did or did not answer.
    pub(crate) fn database(&self, answered: bool) {
        self.vitals().database(answered, Instant::now());
    }

    /// An attempt ended, or failed for a reason that passes.
    pub(crate) fn attempted(&self, stumbled: bool) {
        let stumbles = &self.0.stumbles;
        if stumbled {
            stumbles.fetch_add(1, Ordering::Relaxed);
        } else if stumbles.load(Ordering::Relaxed) > 0 {
            stumbles.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn held_up(&self, topic: &Arc<str>, partition: i32, offset: i64) {
        self.vitals().held_up.insert((Arc::clone(topic), partition), offset);
    }

    pub(crate) fn relieved(&self, topic: &Arc<str>, partition: i32) {
        self.vitals().held_up.remove(&(Arc::clone(topic), partition));
    }

    /// Whether a lane of a job takes in no more, and how many wait in it.
    pub(crate) fn lane_full(
        &self,
        topic: &Arc<str>,
        partition: i32,
        job: &'static str,
        lane: &[u8; 32],
        full: Option<u32>,
    ) {
        let at = ((Arc::clone(topic), partition), job, *lane);
        let mut vitals = self.vitals();
        match full {
            Some(waiting) => _ = vitals.full.insert(at, waiting),
            None => _ = vitals.full.remove(&at),
        }
    }

    pub(crate) fn noticed(&self, notice: Notice) {
        self.vitals().notice(notice);
    }

    /// The partition may not be read.
    pub(crate) fn missing_keys(&self, topic: &Arc<str>, partition: i32, why: &str) {
        self.vitals().refused.insert((Arc::clone(topic), partition), why.to_owned());
    }

    /// There is something to commit of these partitions, and of no other.
    pub(crate) fn waits_for_commit<'a>(&self, partitions: impl Iterator<Item = (&'a Arc<str>, i32)>) {
        self.vitals().waits_for_commit(partitions, Instant::now());
    }

    pub(crate) fn committed(&self, topic: &Arc<str>, partition: i32) {
        self.vitals().uncommitted.remove(&(Arc::clone(topic), partition));
    }

    pub(crate) fn relay_reaches(&self, reaches: bool) {
        self.vitals().relay_reaches(reaches, Instant::now());
    }

    /// The oldest record that a relay has to send is of that age.
    pub(crate) fn relay_backlog(&self, age: Option<Duration>) {
        self.vitals().backlog = age.map(|age| (age, Instant::now()));
    }
}

/// Shows what it would answer.
impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Health").field(&self.ready()).finish()
    }
}

fn well(symptoms: Vec<Symptom>) -> Result<(), Unwell> {
    if symptoms.is_empty() { Ok(()) } else { Err(Unwell(symptoms)) }
}

/// See [`Health::until_dropped`].
pub(crate) struct Alive(Health);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.vitals().enter(Phase::Ended);
    }
}
