//! The doctor: what is wrong, or will be, with the database, the brokers and what lies between them.
//!
//! ```no_run
//! # async fn example() {
//! use idempotent_jobs::doctor::{Doctor, Severity};
//!
//! for finding in Doctor::from_env().examine().await {
//!     if finding.severity > Severity::Ok {
//!         println!("{finding}");
//!     }
//! }
//! # }
//! ```
//!
//! It only looks: nothing is written, no table is made or changed, no group is joined. Each worker
//! [examines](crate::WorkerBuilder::examine) in the background when it starts, and logs what is wrong.
//!
//! Which groups and topics are looked at follows from the jobs that ran on the database before.
//!
//! # Checks
//! Their words stay the same, for scripts.
//!
//! | check | what is wrong |
//! |---|---|
//! | `properties` | a Kafka property that is refused, or risky |
//! | `database.reach`, `brokers.reach` | no answer |
//! | `database.version`, `database.pooled`, `database.read_only` | not usable |
//! | `database.durability`, `database.isolation` | settings that do harm |
//! | `database.clock`, `topic.clock` | clocks that are wrong |
//! | `tables.version`, `tables.sound`, `tables.indexes` | our tables are not what they have to be |
//! | `jobs` | no job ran here yet |
//! | `topic.exists`, `topic.partitions`, `topic.replicas`, `topic.settings`, `topic.cleanup` | a topic that loses messages, or may |
//! | `group.members`, `group.progress` | nobody reads, a gap, a log that was made anew, a lag, partitions whose logs cannot be asked for |
//! | `outbox.backlog`, `outbox.set_aside` | records that are not sent |
//! | `dead_letters.open`, `dead_letters.requested` | messages that wait for a person, or for a worker |
//! | `dead_letters.parked` | lanes that wait behind a dead letter (a warning each), or are full (an error); the first five |
//! | `group.history` | a committed offset and the database's watermark do not fit: lost history and its kin, judged as a worker does at its next assignment |

mod brokers;
mod database;
mod history;

use std::fmt;
use std::time::Duration;

#[cfg(feature = "cli")]
pub(crate) use self::{brokers::numbers, history::judge as judge_history};
use crate::kafka::{self, Cluster, Properties, Readers};
use crate::store::{self, Contents};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It works, and may not for long, or waits for somebody.
    Warning,
    /// It does not work, or loses something.
    Error,
}

impl Severity {
    /// The word used in texts and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a check found. It holds no payload, no key and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The check's word, of the [table](self#checks).
    pub check: &'static str,
    /// Where: a database, a topic, a group.
    pub place: String,
    /// What was found.
    pub what: String,
    /// What to do; empty where nothing is.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, check, place, what, advice } = self;
        write!(f, "{severity}: {check}: {place}: {what}")?;
        if advice.is_empty() { Ok(()) } else { write!(f, ": {advice}") }
    }
}

/// See the [module](self).
#[derive(Debug, Clone)]
#[must_use = "a doctor finds nothing until `examine`"]
pub struct Doctor {
    database_url: Option<String>,
    properties: Properties,
    patience: Duration,
}

/// How long the database and the brokers may take to answer, each, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

impl Doctor {
    /// One configured by code.
    pub fn builder() -> Self {
        Self { database_url: None, properties: Properties::default(), patience: PATIENCE }
    }

    /// One configured by `DATABASE_URL`, `KAFKA_BROKERS` and the other `KAFKA_…` variables, as a worker;
    /// later calls override. Without `KAFKA_GROUP_ID` all groups are looked at that run jobs on the database.
    pub fn from_env() -> Self {
        let database_url = std::env::var("DATABASE_URL").ok();
        Self { database_url, properties: Properties::from_env(), patience: PATIENCE }
    }

    /// The workers' database, `postgres://…` or `sqlite://…`.
    pub fn database_url(mut self, url: impl Into<String>) -> Self {
        self.database_url = Some(url.into());
        self
    }

    /// The Kafka brokers to begin with: `host:port,host:port`.
    pub fn brokers(mut self, brokers: impl Into<String>) -> Self {
        self.properties = self.properties.with_brokers(brokers);
        self
    }

    /// Only this consumer group.
    pub fn group_id(mut self, group: impl Into<String>) -> Self {
        self.properties = self.properties.group(group);
        self
    }

    /// Any librdkafka property, as the workers have it.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties = self.properties.set(name, value);
        self
    }

    /// How long the database and the brokers may take to answer, each; 10 s unless set here.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// For a worker that starts.
    pub(crate) fn of_worker(url: &str, properties: Properties) -> Self {
        Self { database_url: Some(url.to_owned()), properties, patience: PATIENCE }
    }

    /// Looks at everything. What cannot be looked at is a finding too.
    pub async fn examine(self) -> Vec<Finding> {
        let mut report = Report::default();
        let contents = self.look_at_database(&mut report).await;
        let is_current = contents.as_ref().is_some_and(|contents| contents.unsound.is_none());
        let is_known = contents.is_some();
        let cluster = self.look_at_brokers(contents.unwrap_or_default(), &mut report).await;
        if let (Some(cluster), true) = (&cluster, is_known) {
            brokers::judge_names(cluster, &mut report);
        }
        if let (Some(cluster), Some(url), true) = (cluster, &self.database_url, is_current) {
            self.look_at_history(url, &cluster, &mut report).await;
        }
        report.0
    }

    async fn look_at_database(&self, report: &mut Report) -> Option<Contents> {
        const PLACE: &str = "database";
        let Some(url) = &self.database_url else {
            let advice = "set `DATABASE_URL` to what the workers have";
            report.error("database.reach", PLACE, "no database was named", advice);
            return None;
        };
        let looked = tokio::time::timeout(self.patience, store::inspect(url)).await;
        match looked {
            Ok(Ok(found)) => {
                database::judge(&found, report);
                found.contents
            }
            Ok(Err(error)) => {
                report.error("database.reach", PLACE, error.to_string(), UNREACHED);
                None
            }
            Err(_) => {
                report.error("database.reach", PLACE, format!("no answer within {:?}", self.patience), UNREACHED);
                None
            }
        }
    }

    /// After the brokers: see [`store::marks`].
    async fn look_at_history(&self, url: &str, cluster: &Cluster, report: &mut Report) {
        let why = match tokio::time::timeout(self.patience, store::marks(url)).await {
            Ok(Ok(marks)) => return report.0.extend(history::judge(cluster, &marks)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.patience),
        };
        report.error("database.reach", "database", why, UNREACHED);
    }

    async fn look_at_brokers(&self, contents: Contents, report: &mut Report) -> Option<Cluster> {
        let place = format!("brokers {}", self.properties.brokers());
        let given = self.properties.group_id();
        let properties = given.map_or_else(|| self.properties.clone().group("-"), |_| self.properties.clone());
        for warning in properties.warnings() {
            report.warning("properties", "Kafka properties", warning, "leave it out unless it is meant");
        }
        let problems = properties.problems();
        for problem in &problems {
            report.error("properties", "Kafka properties", problem.as_str(), "");
        }
        if !problems.is_empty() {
            return None;
        }
        let readers = readers(&contents, given);
        match kafka::inspect(&properties, readers, self.patience).await {
            Ok(cluster) => {
                brokers::judge(&cluster, &place, report);
                Some(cluster)
            }
            Err(problems) => {
                problems.into_iter().for_each(|problem| report.error("brokers.reach", place.as_str(), problem, ""));
                None
            }
        }
    }
}

const UNREACHED: &str = "check that it runs, that this machine reaches it, and `DATABASE_URL`";

/// Which groups read which topics, by the jobs that were recorded.
pub(crate) fn readers(contents: &Contents, group: Option<&str>) -> Readers {
    let mut readers: Readers = group.map(|group| (group.to_owned(), Default::default())).into_iter().collect();
    for job in contents.jobs.iter().filter(|job| group.is_none_or(|group| group == job.group)) {
        readers.entry(job.group.clone()).or_default().insert(job.topic.clone());
    }
    readers
}

/// What was found so far.
#[derive(Default)]
struct Report(Vec<Finding>);

impl Report {
    fn ok(&mut self, check: &'static str, place: impl Into<String>, what: impl Into<String>) {
        self.add(Severity::Ok, check, place.into(), what.into(), "");
    }

    fn warning(&mut self, check: &'static str, place: impl Into<String>, what: impl Into<String>, advice: &str) {
        self.add(Severity::Warning, check, place.into(), what.into(), advice);
    }

    fn error(&mut self, check: &'static str, place: impl Into<String>, what: impl Into<String>, advice: &str) {
        self.add(Severity::Error, check, place.into(), what.into(), advice);
    }

    fn add(&mut self, severity: Severity, check: &'static str, place: String, what: String, advice: &str) {
        self.0.push(Finding { severity, check, place, what, advice: advice.to_owned() });
    }
}

/// A duration in words.
fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests;
