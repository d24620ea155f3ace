//! What became of an attempt.

use std::any::Any;
use std::time::Duration;

use crate::error::{Chain, JobError, Reason, Rejection};
use crate::store::{Claimed, CommitError, Fault, Store, StoreError};

/// The end of one attempt at one message for one job.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Claim and effects are committed.
    Done,
    /// The key was used by this very message or one of the same content.
    Duplicate,
    /// The key was used, and whether by the same content cannot be told.
    Unverified,
    /// The message is a dead letter.
    DeadBefore,
    /// The message waits in the database, behind a dead letter of its lane.
    Parked,
    /// The message waits here, since so many wait already behind that dead letter.
    Crowded,
    /// The handler wants nothing of it to be done, and that is committed.
    Discarded(String),
    /// The handler wants to see it later.
    Snoozed(Duration),
    /// Nothing was committed, or whether it was is unknown; another attempt decides.
    Failed(Failure),
    /// No attempt can help.
    Dead(Rejection),
}

/// An attempt that may succeed when it is made again.
#[derive(Debug)]
pub(super) struct Failure {
    /// Transient trouble costs no attempt.
    pub fault: Fault,
    /// What went wrong, for a person.
    pub detail: String,
    /// What it is called when attempts are used up.
    pub reason: Reason,
}

impl Failure {
    pub fn lasting(detail: impl Into<String>) -> Self {
        Self { fault: Fault::Lasting, detail: detail.into(), reason: Reason::Exhausted }
    }

    pub fn transient(detail: impl Into<String>) -> Self {
        Self { fault: Fault::Transient, ..Self::lasting(detail) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { fault: error.fault, ..Self::lasting(error.to_string()) }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Outcome {
    /// The claim was not free.
    pub fn seen(claimed: Claimed) -> Self {
        match claimed {
            Claimed::Fresh | Claimed::Duplicate => Self::Duplicate,
            Claimed::Unverified => Self::Unverified,
            Claimed::Dead => Self::DeadBefore,
            Claimed::Conflict { topic, partition, offset } => Self::Dead(Rejection::new(
                Reason::Conflict,
                format!(
                    "its key was used with other content by the message at topic {topic}, partition {partition}, \
                     offset {offset}: widen `key`, or name what must not differ in `compare`"
                ),
            )),
        }
    }

    /// The handler returned an error, after `first` had come through its handle.
    pub fn refused<S: Store>(error: JobError, first: Option<&str>) -> Self {
        if let Some(wait) = error.snoozed() {
            return Self::Snoozed(wait);
        }
        let said = told(S::describe(error.source()), first);
        if error.is_terminal() {
            return Self::Dead(Rejection::new(Reason::Terminal, said));
        }
        match S::fault(error.source()) {
            Fault::Transient => Failure::transient(said).into(),
            Fault::Lasting => Failure::lasting(said).into(),
        }
    }

    /// The transaction was not seen to commit.
    pub fn uncommitted(error: CommitError) -> Self {
        match error {
            CommitError::Refused(error) => Failure::from(error).into(),
            CommitError::Unknown(_) => Failure::transient(Chain(&error).to_string()).into(),
            CommitError::EndedByHandler => {
                Self::Dead(Rejection::new(Reason::TransactionEndedByHandler, error.to_string()))
            }
            CommitError::Swallowed { .. } | CommitError::SavepointLeft => Failure::lasting(error.to_string()).into(),
        }
    }

    /// Whether it was the database's passing trouble.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Failed(Failure { fault, .. }) => *fault,
            _ => Fault::Lasting,
        }
    }

    /// The word for metrics and spans.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Duplicate => "duplicate",
            Self::Unverified => "unverified",
            Self::DeadBefore => "dead_before",
            Self::Parked => "parked",
            Self::Crowded => "crowded",
            Self::Discarded(_) => "discarded",
            Self::Snoozed(_) => "snoozed",
            Self::Failed(Failure { fault: Fault::Lasting, .. }) => "retry",
            Self::Failed(Failure { fault: Fault::Transient, .. }) => "transient",
            Self::Dead(_) => "dead",
        }
    }
}

/// An error, and the one that an earlier statement left behind if that is another.
fn told(said: String, first: Option<&str>) -> String {
    let message = |first: &str| first.split_once(": ").map_or(first, |(_, message)| message).to_owned();
    match first {
        Some(first) if !said.contains(&message(first)) && !said.contains(first) => {
            format!("{said} (the first SQL error of the attempt was {first})")
        }
        _ => said,
    }
}

/// What a panic said.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", said.unwrap_or("(no text)"))
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn db_01_an_error_that_was_swallowed_is_told_with_the_one_it_caused() {
        let aborted = "current transaction is aborted".to_owned();
        let both = told(aborted, Some("23505: duplicate key value violates \"charges_pkey\""));
        assert!(both.starts_with("current transaction") && both.contains("charges_pkey"), "{both}");
        let same = "error returned from database: relation \"a\" does not exist".to_owned();
        assert_eq!(told(same.clone(), Some("42P01: relation \"a\" does not exist")), same);
        assert_eq!(told(same.clone(), None), same);
    }
}
