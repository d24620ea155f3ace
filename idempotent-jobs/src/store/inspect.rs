//! What a database says of itself and of our tables. Nothing is written, and nothing is migrated: whoever
//! looks may be of another version than the workers.

use std::time::Duration;

use super::migrate::{Migration, missing};
use super::{ParkedLane, StoreError, Watermark, unknown_database};

/// A look at a database.
#[derive(Debug, Clone)]
pub struct Database {
    /// Where it is, without a password.
    pub place: String,
    /// The server's version, in its own words.
    pub version: String,
    /// Whether it is older than what is known here.
    pub too_old: bool,
    /// Settings that matter, by the names the database has for them.
    pub settings: Vec<(&'static str, String)>,
    /// Whether a pooling proxy stands before it.
    pub pooled: bool,
    /// What its clock said, less what ours said at about that time; `None`: they are one clock.
    pub skew: Option<Skew>,
    /// Our tables.
    pub tables: Tables,
    /// What is in them; `None` unless they are current.
    pub contents: Option<Contents>,
}

/// How far a clock is from ours, in milliseconds: positive when it is ahead.
pub type Skew = i64;

/// Whether our tables are what this program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tables {
    /// There are none.
    Absent,
    /// Migrations are missing, by version.
    Behind(Vec<i32>),
    /// They are of this version.
    Current(i32),
    /// They are not this program's, and why.
    Foreign(String),
    /// They may not be read, or not be used, and what to do.
    Refused(String),
}

/// What is in our tables.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// What the promise stands on is broken, and how.
    pub unsound: Option<String>,
    /// Indexes that are missing or cannot be used.
    pub indexes: Vec<String>,
    /// Jobs that ran here.
    pub jobs: Vec<RecordedJob>,
    /// Records to be sent.
    pub outbox: Outbox,
    /// Relays that live.
    pub relays: u64,
    /// Dead letters that wait for a person.
    pub open: Count,
    /// Dead letters that wait for a worker.
    pub requested: Count,
    /// Lanes that wait behind a dead letter.
    pub lanes: Lanes,
    /// Messages that failed, or may have killed a process, and are not settled yet; by their last change.
    pub attempts: Count,
    /// Partitions that a worker has noted as its own, by group.
    pub owners: Vec<Owners>,
    /// How long ago each group's old keys were last purged.
    pub sweeps: Vec<(String, Duration)>,
}

/// Lanes that wait behind a dead letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lanes {
    /// How many, and since when the first one waits.
    pub all: Count,
    /// Messages that wait in them.
    pub waiting: u64,
    /// Those that take no more messages in.
    pub full: u64,
    /// Some of them: full ones first, then by age.
    pub first: Vec<ParkedLane>,
}

/// More lanes are not named.
pub(super) const NAMED: i64 = 5;

/// Partitions that a worker of a group has noted as its own: until it lets them go, or the next one takes them over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    /// The group.
    pub group: String,
    /// How many partitions, and for how long the oldest.
    pub partitions: Count,
    /// Those whose owner before died.
    pub deadly: u64,
}

/// The watermarks of all groups.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    /// Of the tables, as it is in what workers leave beside their offsets.
    pub lineage: String,
    /// The rows, each with its group.
    pub rows: Vec<(String, Watermark)>,
}

/// A job as it was recorded at its first start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedJob {
    /// Its name.
    pub name: String,
    /// The group that runs it.
    pub group: String,
    /// The topic it reads.
    pub topic: String,
}

/// The outbox.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outbox {
    /// Records that may be sent.
    pub ready: Count,
    /// Records whose time has yet to come.
    pub later: Count,
    /// Records that were set aside.
    pub set_aside: Count,
    /// Records behind those.
    pub held: Count,
}

/// How many, up to [`MOST`], and how old the oldest is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Rows.
    pub rows: u64,
    /// Of the first row.
    pub oldest: Option<Duration>,
}

/// More rows are not counted.
pub const MOST: u64 = 1_000_000;

impl Count {
    pub(super) fn new(rows: i64, millis: Option<i64>) -> Self {
        let oldest = millis.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Self { rows: u64::try_from(rows).unwrap_or(0), oldest }
    }
}

/// Looks at the database of this URL.
///
/// # Errors
/// It is of no kind this build knows, cannot be reached, or does not answer.
pub async fn inspect(url: &str) -> Result<Database, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => super::postgres::inspect(url).await,
        #[cfg(feature = "sqlite")]
        Some("sqlite") => super::sqlite::inspect(url).await,
        _ => Err(StoreError::lasting("reading DATABASE_URL", unknown_database())),
    }
}

/// How our tables stand in the database of this URL.
///
/// # Errors
/// As of [`inspect`].
pub async fn standing(url: &str) -> Result<Tables, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => super::postgres::standing(url).await,
        #[cfg(feature = "sqlite")]
        Some("sqlite") => super::sqlite::standing(url).await,
        _ => Err(StoreError::lasting("reading DATABASE_URL", unknown_database())),
    }
}

/// The watermarks in the database of this URL, whose tables are current.
///
/// Looked at after the brokers: a worker writes a watermark before it commits the offset, so that what is committed
/// there is known here.
///
/// # Errors
/// As of [`inspect`].
pub async fn marks(url: &str) -> Result<Marks, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => super::postgres::marks(url).await,
        #[cfg(feature = "sqlite")]
        Some("sqlite") => super::sqlite::marks(url).await,
        _ => Err(StoreError::lasting("reading DATABASE_URL", unknown_database())),
    }
}

/// How the tables stand, by what was applied.
pub(super) fn tables(known: &[Migration], applied: Option<&[(i32, String)]>) -> Tables {
    let Some(applied) = applied else { return Tables::Absent };
    match missing(known, applied) {
        Err(why) => Tables::Foreign(why),
        Ok(steps) if steps.is_empty() => Tables::Current(known.last().map_or(0, |last| last.version)),
        Ok(steps) => Tables::Behind(steps.iter().map(|step| step.version).collect()),
    }
}

/// The names of the indexes that migrations make.
pub(super) fn indexes(known: &[Migration]) -> Vec<&str> {
    let named = |line| {
        let mut words = str::split_ascii_whitespace(line);
        let begins = words.next() == Some("CREATE");
        let index = words.find(|word| *word != "UNIQUE") == Some("INDEX");
        words.next().filter(|_| begins && index)
    };
    known.iter().flat_map(|migration| migration.sql.lines()).filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 2] = [
        Migration { version: 1, sql: "-- CREATE INDEX none\nCREATE UNIQUE INDEX a ON t (x)\n    WHERE y;" },
        Migration { version: 2, sql: "CREATE TABLE t (x);\nCREATE INDEX b ON t (x);\nCREATE FUNCTION f()" },
    ];

    #[test]
    fn indexes_are_named_by_the_migrations() {
        assert_eq!(indexes(&KNOWN), ["a", "b"]);
    }

    #[test]
    fn tables_stand_as_what_was_applied() {
        let applied: Vec<_> = KNOWN.iter().map(|migration| (migration.version, migration.checksum())).collect();
        assert_eq!(tables(&KNOWN, None), Tables::Absent);
        assert_eq!(tables(&KNOWN, Some(&applied[..1])), Tables::Behind(vec![2]));
        assert_eq!(tables(&KNOWN, Some(&applied)), Tables::Current(2));
        assert!(matches!(tables(&KNOWN, Some(&[(9, String::new())])), Tables::Foreign(_)));
    }
}
