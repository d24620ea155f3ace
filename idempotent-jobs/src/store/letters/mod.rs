//! Dead letters: messages that cannot be processed, kept whole.
//!
//! Invariant: a dead letter and the claim with `state = 'dead'` that keeps its message from running behind
//! its back are written in one transaction, and a redrive takes that claim over in the transaction of the
//! effects. So a message is done, or dead with a letter, or neither, and never two of these.

mod bury;
mod copy;
mod operate;
mod redrive;

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use sqlx::{Database, Error};

use super::outcome::Stored;
use super::{Claim, Claimed};
use crate::error::{Reason, Rejection};
use crate::message::{Coordinates, Message};

pub(super) use self::bury::{BURYING, bury};
pub use self::operate::{Foreseen, LetterStore, open_letters};
pub(super) use self::redrive::{REOPENING, TAKING, redriven, reopen, requested, supersede, take, unkeyed};

/// A message that is given up, as it is to be written.
#[derive(Clone, Copy)]
pub struct Death<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The job that gave it up; `None`: no job takes it.
    pub job: Option<&'a str>,
    /// The message.
    pub message: &'a Message,
    /// The claim it would make, if it has a key.
    pub claim: Option<Claim<'a>>,
    /// Which rule it broke. Of a [conflict](Reason::Conflict) the claim is another message's.
    pub reason: Reason,
    /// What was found.
    pub error: &'a str,
    /// How often the job was entered.
    pub attempts: u32,
    /// The topic that a copy of it goes to.
    pub copy_to: Option<&'a str>,
    /// Its lane, if the later messages of that are to wait behind it.
    pub lane: Option<[u8; 32]>,
}

/// Why a letter is open again.
#[derive(Clone, Copy)]
pub struct Again<'a> {
    /// Which rule its message broke this time, and what was found.
    pub rejection: &'a Rejection,
    /// How often its job was entered since it was requested.
    pub attempts: u32,
    /// The claim its message would make, if it has a key and nobody else that one.
    pub claim: Option<Claim<'a>>,
    /// It dies for the first time, having waited for another: what its copy is made of.
    pub first: Option<&'a Death<'a>>,
}

/// What became of a message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buried {
    /// It is a dead letter now.
    Written,
    /// It was one before.
    Already,
    /// Its key was claimed meanwhile: nothing was written, and this is what its claim would find.
    Seen(Claimed),
}

/// How a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LetterState {
    /// It waits for a person.
    Open,
    /// A worker is to run it again.
    Requested,
    /// It was run again, or found done by then.
    Redriven,
    /// It was set aside for good.
    Skipped,
    /// It waits behind another one of its lane, and is run when its turn comes.
    Parked,
}

impl LetterState {
    /// The word used in tables and texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Requested => "requested",
            Self::Redriven => "redriven",
            Self::Skipped => "skipped",
            Self::Parked => "parked",
        }
    }
}

impl fmt::Display for LetterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LetterState {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Open, Self::Requested, Self::Redriven, Self::Skipped, Self::Parked]
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| {
                format!("`{word}` is no state of a dead letter: it is open, requested, redriven, skipped or parked")
            })
    }
}

/// A message that could not be processed, and what is known of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its number.
    pub id: i64,
    /// The job that gave it up; `None`: no job took it.
    pub job: Option<String>,
    /// The consumer group that read it.
    pub group: String,
    /// The message, byte for byte.
    pub message: Message,
    /// Its dedup key for the job, if it could be computed.
    pub key: Option<String>,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) scheme: Option<String>,
    /// The word of the rule it broke, as of [`Reason`].
    pub reason: String,
    /// What was found, errors with their sources.
    pub error: String,
    /// How often the job was entered.
    pub attempts: u32,
    /// How it stands.
    pub state: LetterState,
    /// When it was written.
    pub died_at: SystemTime,
    /// When it last changed.
    pub changed_at: SystemTime,
    /// Who asked for the last change; `None` is a worker.
    pub changed_by: Option<String>,
}

/// How a dead letter stands, and why it last died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub id: i64,
    /// Its state.
    pub state: LetterState,
    /// The word of the rule it broke.
    pub reason: String,
    /// What was found.
    pub error: String,
}

/// One change of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// How it stood afterwards: open when it died again.
    pub state: LetterState,
    /// When.
    pub at: SystemTime,
    /// Who asked for it; `None` is a worker.
    pub by: Option<String>,
    /// What was found; of the first request, why it had died until then.
    pub detail: Option<String>,
}

/// Which dead letters are meant: those that fit everything that is given, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(crate) ids: Option<Vec<i64>>,
    pub(crate) job: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) state: Option<LetterState>,
    pub(crate) older: Option<Duration>,
    pub(crate) younger: Option<Duration>,
    pub(crate) after: i64,
    pub(crate) limit: Option<u32>,
}

/// A dead letter that a worker is asked to run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// Its number.
    pub id: i64,
    /// Its job; `None`: no job took it.
    pub job: Option<String>,
    /// Its topic.
    pub topic: String,
}

/// A dead letter without a claim, which nothing but its coordinates tells again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unkeyed {
    /// Where it lies in its partition.
    pub offset: i64,
    /// Its job; `None`: no job took it.
    pub job: Option<String>,
    /// [Of the message](Unkeyed::is).
    pub(super) digest: Vec<u8>,
}

impl Unkeyed {
    /// Whether it is this message of its partition.
    pub fn is(&self, message: &Message) -> bool {
        self.offset == message.coordinates.offset && self.digest == digest(message)
    }
}

/// The SQL of dead letters, in the mirrored files `letters.rs` of the databases.
pub trait LetterSql: Database {
    /// The dedup insert with `state = 'dead'`: whether the key was free.
    fn insert_dead(conn: &mut Self::Connection, claim: &Claim<'_>) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Writes a dead letter, or opens it again when it was redriven: whether it did either.
    fn write(conn: &mut Self::Connection, death: &Death<'_>) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Those of a partition that have no key, from an offset on. One of a job that was redriven is done, also for a program
    /// that can still not read it; of one that no job took, that is for the claims of those who take it.
    fn unkeyed(
        conn: &mut Self::Connection,
        group: &str,
        from: &Coordinates,
    ) -> impl Future<Output = Result<Vec<Unkeyed>, Error>> + Send;
    /// Up to [`PAGE`] of those that are to be run again by these jobs, each of its own of these topics, or that the group
    /// read from them and no job took, behind a number.
    fn requested(
        conn: &mut Self::Connection,
        after: i64,
        group: &str,
        jobs: &[&str],
        topics: &[&str],
    ) -> impl Future<Output = Result<Vec<Requested>, Error>> + Send;
    /// One that is to be run again, locked; `None` also when somebody else has it.
    fn take(conn: &mut Self::Connection, id: i64) -> impl Future<Output = Result<Option<DeadLetter>, Error>> + Send;
    /// The row that holds a claim's key, locked.
    fn hold(
        conn: &mut Self::Connection,
        claim: &Claim<'_>,
    ) -> impl Future<Output = Result<Option<Stored>, Error>> + Send;
    /// Whether a dead letter of this job, key and fingerprint is still to be decided on.
    fn is_undecided(
        conn: &mut Self::Connection,
        claim: &Claim<'_>,
        fingerprint: &[u8],
    ) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Makes the held row the claim's own, and done.
    fn take_over(conn: &mut Self::Connection, claim: &Claim<'_>) -> impl Future<Output = Result<(), Error>> + Send;
    /// Changes a state, and notes it in the history: whether it was one of `from`.
    fn change_letter(
        conn: &mut Self::Connection,
        id: i64,
        from: &[LetterState],
        to: LetterState,
        by: Option<&str>,
        detail: Option<&str>,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
    /// One that was run again died again, after so many attempts more: writes why, beside [`change_letter`](Self::change_letter).
    fn died(conn: &mut Self::Connection, id: i64, again: &Again<'_>) -> impl Future<Output = Result<(), Error>> + Send;
    /// One that had no key has this one by now, unless another letter of that content is there.
    fn key_letter(
        conn: &mut Self::Connection,
        id: i64,
        claim: &Claim<'_>,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// Those that are meant.
    fn list(
        conn: &mut Self::Connection,
        filter: &Filter,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, Error>> + Send;
    /// The changes of one, in their order.
    fn history(conn: &mut Self::Connection, id: i64) -> impl Future<Output = Result<Vec<Change>, Error>> + Send;
    /// How those of these numbers stand that are there, without their messages.
    fn standings(conn: &mut Self::Connection, ids: &[i64])
    -> impl Future<Output = Result<Vec<Standing>, Error>> + Send;
}

/// How many requests are looked at together.
pub const PAGE: usize = 100;

/// The most bytes of an error that are kept.
const LONGEST: usize = 8_192;

/// An error as a database can store it: a NUL cannot be in a text, and a text has an end.
pub(super) fn cleaned(error: &str) -> String {
    let clean = error.replace('\0', "\u{fffd}");
    let end = (0..=LONGEST.min(clean.len())).rev().find(|end| clean.is_char_boundary(*end)).unwrap_or(0);
    if end == clean.len() { clean } else { format!("{} …", &clean[..end]) }
}

/// Of everything that was sent; the parts cannot run into each other.
pub(super) fn digest(message: &Message) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut part = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => {
            digest.update((bytes.len() as u64 + 1).to_be_bytes());
            digest.update(bytes);
        }
        None => digest.update(0_u64.to_be_bytes()),
    };
    part(message.key.as_deref());
    part(message.payload.as_deref());
    part(message.timestamp.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
    for (name, value) in message.headers.iter() {
        part(Some(name.as_bytes()));
        part(value);
    }
    digest.finalize().into()
}

/// A row's milliseconds since the Unix epoch.
pub(super) fn instant(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// A row's text that only this library writes.
pub(super) fn state(word: &str) -> Result<LetterState, Error> {
    word.parse().map_err(|error: String| Error::Decode(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    #[test]
    fn an_error_is_cleaned_and_ends() {
        assert_eq!(cleaned("a\0b"), "a\u{fffd}b");
        let long = "é".repeat(LONGEST);
        assert!(cleaned(&long).len() <= LONGEST + 4);
    }

    #[test]
    fn the_digest_tells_null_from_empty_and_one_part_from_the_next() {
        let message = |key: Option<&str>, payload: Option<&str>, headers: &[(&str, Option<&str>)]| Message {
            coordinates: Coordinates { topic: "t".into(), partition: 0, offset: 0 },
            key: key.map(Into::into),
            payload: payload.map(Into::into),
            headers: Headers::new(
                headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(Into::into))).collect(),
            ),
            timestamp: None,
        };
        let all = [
            message(None, None, &[]),
            message(Some(""), None, &[]),
            message(None, Some(""), &[]),
            message(Some("a"), Some("b"), &[]),
            message(Some("ab"), Some(""), &[]),
            message(None, None, &[("a", None)]),
            message(None, None, &[("a", Some(""))]),
            message(None, None, &[("a", None), ("a", None)]),
        ];
        let digests: std::collections::HashSet<_> = all.iter().map(digest).collect();
        assert_eq!(digests.len(), all.len());
    }
}
