//! Where it all runs: on what this program brings, or on the servers of the environment.

use idempotent_jobs::JobMessage as _;
use idempotent_jobs::embedded::Broker;

use crate::Failure;
use crate::folder::Folder;
use crate::jobs::Order;

/// A broker, a database, and the group that reads.
pub struct Place {
    pub brokers: String,
    pub database_url: String,
    pub group: String,
    /// What only the worker needs: `KAFKA_…` variables.
    pub worker_env: Vec<(&'static str, &'static str)>,
    /// Held for as long as they serve. `None`: the servers are not ours.
    pub embedded: Option<(Broker, Folder)>,
}

/// Partitions of the topic, where this program makes it.
pub const PARTITIONS: i32 = 6;

impl Place {
    /// By the environment: both addresses, or neither.
    pub fn open(run: &str) -> Result<Self, Failure> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (set("KAFKA_BROKERS"), set("DATABASE_URL")) {
            (None, None) => Self::embedded(run),
            (Some(brokers), Some(database_url)) => Ok(Self::servers(brokers, database_url, set("KAFKA_GROUP_ID"))),
            (Some(_), None) => Err(alone("KAFKA_BROKERS", "DATABASE_URL")),
            (None, Some(_)) => Err(alone("DATABASE_URL", "KAFKA_BROKERS")),
        }
    }

    fn embedded(run: &str) -> Result<Self, Failure> {
        let folder = Folder::create(&format!("quickstart-{run}"))?;
        let broker = Broker::start(&[(Order::TOPIC, PARTITIONS)])?;
        let file = folder.path().join("effects.sqlite");
        Ok(Self {
            brokers: broker.bootstrap_servers().to_owned(),
            database_url: format!("sqlite://{}?mode=rwc", file.display()),
            group: GROUP.to_owned(),
            // A dead worker is replaced after three seconds, and not after a classic session's six.
            worker_env: vec![("KAFKA_GROUP_PROTOCOL", "consumer")],
            embedded: Some((broker, folder)),
        })
    }

    fn servers(brokers: String, database_url: String, group: Option<String>) -> Self {
        let group = group.unwrap_or_else(|| GROUP.to_owned());
        // The next worker takes the place of the one that was killed, whose session has not ended yet.
        let worker_env = vec![("KAFKA_GROUP_INSTANCE_ID", "quickstart-worker")];
        Self { brokers, database_url, group, worker_env, embedded: None }
    }

    /// The job for this database.
    pub fn job(&self) -> &'static str {
        if self.database_url.starts_with("sqlite:") { "record_in_sqlite" } else { "record_in_postgres" }
    }

    /// In words.
    pub fn name(&self) -> &'static str {
        match (&self.embedded, self.job()) {
            (Some(_), _) => "the embedded broker and SQLite",
            (None, "record_in_sqlite") => "Kafka and SQLite",
            (None, _) => "Kafka and PostgreSQL",
        }
    }
}

/// Stays the same from run to run: a job's name belongs to one group.
const GROUP: &str = "quickstart";

fn alone(set: &str, missing: &str) -> Failure {
    format!("{set} is set and {missing} is not: set both to run on your servers, or neither to run on what this program brings").into()
}
