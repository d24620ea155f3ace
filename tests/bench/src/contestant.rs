//! One line of the table: who does what, where.

use crate::Failure;
use crate::child;
use crate::kafka::Kafka;
use crate::load::Load;
use crate::options::Measured;
use crate::pgbench::{self, Script};
use crate::postgres::Postgres;
use crate::progress::Told;
use crate::sqlite::Sqlite;

/// See the module.
#[derive(Debug, Clone)]
pub struct Contestant {
    pub name: &'static str,
    pub way: Way,
    pub load: Load,
    pub place: Place,
    pub connections: usize,
    /// Goes over messages that it did before, so that all are duplicates.
    pub again: bool,
}

/// How jobs are done.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// By one of our jobs.
    Ours(&'static str),
    /// By hand, so many jobs a transaction.
    Twin(usize),
    Pgbench(Script),
}

/// The database.
#[derive(Debug, Clone)]
pub enum Place {
    Postgres(Postgres),
    Sqlite(Sqlite),
}

impl Contestant {
    /// Does the messages that are to come again.
    pub async fn prepare(&self, kafka: &Kafka) -> Result<(), Failure> {
        if self.again {
            Self { again: false, ..self.clone() }.run(kafka).await?;
        }
        Ok(())
    }

    /// Measures once; jobs per second.
    pub async fn run(&self, kafka: &Kafka) -> Result<f64, Failure> {
        if !self.again {
            self.place.reset().await?;
        }
        let (jobs, rate) = match self.way {
            Way::Pgbench(script) => pgbench::run(&self.place.url(), script, self.connections, self.load.messages)?,
            Way::Ours(job) => self.consume(kafka, &["worker", job], "bench")?,
            Way::Twin(jobs) => self.consume(kafka, &["twin", "--per-transaction", &jobs.to_string()], "twin")?,
        };
        let rows = self.place.rows().await?;
        if rows != (jobs, jobs) {
            return Err(format!("{}: {jobs} jobs left {} claims and {} effects", self.name, rows.0, rows.1).into());
        }
        Ok(rate)
    }

    fn consume(&self, kafka: &Kafka, mode: &[&str], group: &str) -> Result<(u64, f64), Failure> {
        let told = self.told(kafka, mode, group)?;
        let duplicates = if self.again { told.done } else { 0 };
        if told.duplicates != duplicates {
            return Err(format!("{}: {} duplicates instead of {duplicates}", self.name, told.duplicates).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let rate = told.done as f64 / told.seconds;
        Ok((told.done, rate))
    }

    /// Runs the process over the whole topic, and sees that its offsets are committed.
    pub fn told(&self, kafka: &Kafka, mode: &[&str], group: &str) -> Result<Told, Failure> {
        let Load { topic, messages } = self.load;
        kafka.rewind(group, topic)?;
        let measured = Measured {
            database: self.place.url(),
            brokers: kafka.brokers.clone(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            messages,
            connections: self.connections,
        };
        let told = child::run(mode, &measured)?;
        let settled = kafka.settled(group, topic)?;
        if (told.done, settled) != (messages, messages) {
            let name = self.name;
            return Err(format!("{name}: of {messages} messages {} are done, {settled} settled", told.done).into());
        }
        Ok(told)
    }
}

impl Place {
    fn url(&self) -> String {
        match self {
            Self::Postgres(postgres) => postgres.url.clone(),
            Self::Sqlite(sqlite) => sqlite.url(),
        }
    }

    pub async fn reset(&self) -> Result<(), Failure> {
        match self {
            Self::Postgres(postgres) => postgres.reset().await,
            Self::Sqlite(sqlite) => sqlite.reset().await,
        }
    }

    pub async fn rows(&self) -> Result<(u64, u64), Failure> {
        match self {
            Self::Postgres(postgres) => postgres.rows().await,
            Self::Sqlite(sqlite) => sqlite.rows().await,
        }
    }
}
