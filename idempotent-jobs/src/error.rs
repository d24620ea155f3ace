//! Errors: [`JobError`] for the authors of jobs, [`Error`] for those who operate them.

use std::fmt;
use std::time::Duration;

use crate::message::Coordinates;

/// Any error a handler, a driver or a codec can raise.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What a job returns: `Ok(())` commits, an error rolls back and retries, a
/// [terminal](JobError::terminal) one gives up at once. An error can also be a decision:
/// [not now](JobError::snooze), or [not at all](JobError::discard).
pub type JobResult = Result<(), JobError>;

/// Why an attempt of a job failed.
///
/// Any error becomes one by `?` and is retried. It deliberately does not implement
/// [`std::error::Error`], so that the conversion from every error type stays possible.
pub struct JobError {
    source: BoxError,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Retry,
    Terminal,
    Snooze(Duration),
    Discard,
}

/// Beyond it clocks overflow.
const LONGEST_SNOOZE: Duration = Duration::from_secs(365 * 24 * 3600);

impl JobError {
    /// An error that no retry can mend: the message is given up at once.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self { source: error.into(), kind: Kind::Terminal }
    }

    /// Not now: what was written is rolled back, and the message comes again after this time, a year at most. It costs no
    /// attempt. Meanwhile the messages that wait for this one wait, all others go on.
    ///
    /// The wait outlives the process. While the message waits its offset stays, and behind 10,000 messages its
    /// partition is read no further.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use idempotent_jobs::prelude::*;
    /// # fn example(is_open: bool) -> JobResult {
    /// if !is_open {
    ///     return Err(JobError::snooze(Duration::from_secs(60)));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn snooze(wait: Duration) -> Self {
        let wait = wait.min(LONGEST_SNOOZE);
        Self { source: format!("snoozed for {wait:?}").into(), kind: Kind::Snooze(wait) }
    }

    /// Not at all: what was written is rolled back, and the message counts as done. Its key is claimed as
    /// by any other, so that it is a duplicate when it comes again; the reason is logged.
    ///
    /// ```
    /// # use idempotent_jobs::prelude::*;
    /// # fn example(is_closed: bool) -> JobResult {
    /// if is_closed {
    ///     return Err(JobError::discard("the account is closed"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn discard(why: impl Into<BoxError>) -> Self {
        Self { source: why.into(), kind: Kind::Discard }
    }

    /// Whether the message is given up without further attempts.
    pub fn is_terminal(&self) -> bool {
        self.kind == Kind::Terminal
    }

    /// How long the message is to wait, if it was [snoozed](Self::snooze).
    pub fn snoozed(&self) -> Option<Duration> {
        match self.kind {
            Kind::Snooze(wait) => Some(wait),
            _ => None,
        }
    }

    /// Whether the message counts as done [without effect](Self::discard).
    pub fn is_discard(&self) -> bool {
        self.kind == Kind::Discard
    }

    /// The error as the handler raised it.
    pub fn source(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl<E: Into<BoxError>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self { source: error.into(), kind: Kind::Retry }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Retry => "retry",
            Kind::Terminal => "terminal",
            Kind::Snooze(_) => "snooze",
            Kind::Discard => "discard",
        };
        write!(f, "{kind}: {}", Chain(&*self.source))
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Chain(&*self.source))
    }
}

/// Turns the error of a `Result` into a [terminal](JobError::terminal) one.
///
/// ```
/// use idempotent_jobs::prelude::*;
///
/// fn parse(text: &str) -> Result<u32, JobError> {
///     text.parse::<u32>().terminal()
/// }
/// assert!(parse("x").unwrap_err().is_terminal());
/// ```
pub trait Terminal<T> {
    /// Gives the message up at once instead of retrying it.
    ///
    /// # Errors
    /// The same error, made terminal.
    fn terminal(self) -> Result<T, JobError>;
}

impl<T, E: Into<BoxError>> Terminal<T> for Result<T, E> {
    fn terminal(self) -> Result<T, JobError> {
        self.map_err(JobError::terminal)
    }
}

/// An error and its sources on one line, `a: b: c`.
pub(crate) struct Chain<'a>(pub &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

/// Why a message cannot be processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The payload is not what the job's codec can read.
    Decode,
    /// The payload is null, and the job needs one.
    Tombstone,
    /// A part of the key is absent or null.
    KeyMissing,
    /// A part of the key is there, but is no text.
    KeyInvalid,
    /// The `idempotency-key` header and the message's own fields disagree.
    KeyMismatch,
    /// No job of the topic takes this event.
    UnknownEvent,
    /// The key was used before with another payload.
    Conflict,
    /// The job said that no retry can help.
    Terminal,
    /// Every attempt failed.
    Exhausted,
    /// The handler ended the transaction it was lent.
    TransactionEndedByHandler,
    /// Nothing is wrong with it: it waits behind an earlier message of its lane that died.
    Parked,
    /// The process died whenever it ran, with nothing beside it.
    KilledProcess,
}

impl Reason {
    /// Each of them.
    #[cfg(feature = "cli")]
    pub(crate) const ALL: [Self; 12] = [
        Self::Decode,
        Self::Tombstone,
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::KeyMismatch,
        Self::UnknownEvent,
        Self::Conflict,
        Self::Terminal,
        Self::Exhausted,
        Self::TransactionEndedByHandler,
        Self::Parked,
        Self::KilledProcess,
    ];

    /// Whether a message that is given up for it had its job entered.
    pub(crate) const fn was_entered(self) -> bool {
        matches!(self, Self::Terminal | Self::Exhausted | Self::TransactionEndedByHandler)
    }

    /// The word used in errors, metrics and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Tombstone => "tombstone",
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::KeyMismatch => "key_mismatch",
            Self::UnknownEvent => "unknown_event",
            Self::Conflict => "conflict",
            Self::Terminal => "terminal",
            Self::Exhausted => "exhausted",
            Self::TransactionEndedByHandler => "transaction_ended_by_handler",
            Self::Parked => "parked",
            Self::KilledProcess => "killed_process",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What becomes of a message that cannot be processed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is kept whole as a [dead letter](crate::dead_letters) before its offset moves, and the worker goes on.
    #[default]
    DeadLetter,
    /// It is passed over and counted; nothing is kept of it.
    Skip,
    /// The worker stops before its offset.
    Stop,
}

/// A message that cannot be processed: which rule it broke, and the words for a person.
#[derive(Debug, Clone)]
pub struct Rejection {
    /// The rule.
    pub reason: Reason,
    /// What was found and what to do. Holds no payload and no secret.
    pub detail: String,
}

impl Rejection {
    /// A rejection for `reason`, explained by `detail`.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// What ends [`run`](crate::run) with a failure.
///
/// `Debug` prints the same text as `Display`, with every source, because that is what a
/// `main` returning it shows.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The worker, the producer or the embedded broker did not start; every problem found is listed.
    #[error("did not start:{}", list(.0))]
    Start(Vec<String>),
    /// A message could not be processed and the process stopped before its offset, as
    /// [`Fate::Stop`] asks.
    #[error(
        "stopped at {at}: job {job}, key {key}, reason {reason}: {detail} \
         (the offset was not committed: the message is read again at the next start)"
    )]
    Stopped {
        /// Where the message lies.
        at: Coordinates,
        /// The job, or `-` when no job takes the message.
        job: String,
        /// The hash of its key, as spans show it, or `-` when it has none.
        key: String,
        /// The rule it broke.
        reason: Reason,
        /// What was found and what to do.
        detail: String,
    },
    /// Running jobs did not finish within the shutdown budget; their messages come again.
    #[error(
        "{running} running job(s) did not finish within {budget:?} and were rolled back; their messages are read again"
    )]
    ShutdownTimeout {
        /// Jobs still running when the budget ended.
        running: usize,
        /// The budget.
        budget: Duration,
    },
    /// What was to be written could not be.
    #[error("cannot write: {0}")]
    Output(String),
    /// The Kafka client cannot go on.
    #[error("kafka: {0}")]
    Kafka(String),
    /// The database refused what an operator asked for, or is away.
    #[error("database: {0}")]
    Database(String),
    /// A defect of this library; what was running is read again at the next start.
    #[error("a defect of idempotent-jobs, please report it: {0}")]
    Internal(String),
}

fn list(problems: &[String]) -> String {
    problems.iter().map(|problem| format!("\n  - {problem}")).collect()
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Chain(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snooze_ends_one_day_whatever_it_says() {
        let wait = JobError::snooze(Duration::MAX).snoozed().expect("it is snoozed");
        assert_eq!(wait, LONGEST_SNOOZE);
        assert!(std::time::Instant::now().checked_add(wait).is_some());
    }
}
