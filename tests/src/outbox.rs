//! Relays to kill, rows for them, and what of it came to be in Kafka.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use idempotent_jobs::JobMessage;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

use crate::PATIENCE;
use crate::broker::Broker;
use crate::child::{self, Child};
use crate::database::{Database, Kind, fresh};
use crate::events::Events;
use crate::wait_for;

/// The topic of [`Numbered`] messages.
pub const TOPIC: (&str, i32) = ("relayed", 6);

/// The message of these tests: the `n`th of its lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JobMessage)]
#[message(topic = "relayed", key = "lane, n", partition_by = "lane")]
pub struct Numbered {
    pub lane: i64,
    pub n: i64,
}

/// A record found in Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<String>,
    /// The value of the `idempotency-key` header.
    pub dedup: String,
    pub payload: Option<String>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Found {
    /// The message in it.
    ///
    /// # Panics
    /// When it is another.
    pub fn numbered(&self) -> Numbered {
        serde_json::from_str(self.payload.as_deref().expect("it has a payload")).expect("it is one of ours")
    }
}

/// A real Kafka, a PostgreSQL of its own, relays.
pub struct Scene {
    pub database: Database,
    pub events: Arc<Events>,
    pub broker: Broker,
    from: Vec<i64>,
    topic: &'static str,
    sources: AtomicU32,
}

impl Scene {
    /// On the real servers; what earlier tests sent is left out.
    pub fn real() -> Self {
        let broker = Broker::real(&[TOPIC]);
        let database = Database::new(Kind::Postgres);
        wait_for(idempotent_jobs::outbox::migrate(database.url())).expect("the tables can be made");
        let from = broker.ends(TOPIC.0, TOPIC.1);
        Self { database, events: Arc::default(), broker, from, topic: TOPIC.0, sources: AtomicU32::new(1) }
    }

    /// Where each partition ended before this scene.
    pub fn from(&self) -> &[i64] {
        &self.from
    }

    /// The command of a relay.
    pub fn command(&self) -> Command {
        let mut command = child::command("relay_child");
        command.env("DATABASE_URL", self.database.url()).env("KAFKA_BROKERS", self.broker.servers());
        command
    }

    /// Starts a relay.
    pub fn start(&self, command: Command) -> Child {
        Child::start(command, self.sources.fetch_add(1, Ordering::Relaxed), &self.events)
    }

    /// Starts a relay as it comes.
    pub fn relay(&self) -> Child {
        self.start(self.command())
    }

    /// Puts rows of that lane into the outbox, numbered from and to.
    pub fn rows(&self, lane: i64, numbers: std::ops::Range<i64>) {
        self.database.run(&rows(TOPIC.0, lane, numbers));
    }

    /// How many rows of these states are in the outbox.
    pub fn waiting(&self) -> i64 {
        self.database.number("SELECT count(*) FROM idempotent_jobs.outbox")
    }

    /// Waits until a number of the database is what it should be.
    ///
    /// # Panics
    /// At the deadline.
    pub fn becomes(&self, sql: &str, number: i64, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let found = self.database.number(sql);
            if found == number {
                return;
            }
            let seen = || self.events.seen().describe();
            assert!(Instant::now() < deadline, "{sql}: {found}, not {number}, after {limit:?}:\n{}", seen());
            self.events.wait_briefly(Duration::from_millis(20), |seen| seen.deserter().is_some());
        }
    }

    /// Waits until every row left the outbox.
    pub fn drained(&self, limit: Duration) {
        self.becomes("SELECT count(*) FROM idempotent_jobs.outbox", 0, limit);
    }

    /// What is in the topic now, in the order of each partition.
    pub fn found(&self) -> Vec<Found> {
        read(self.broker.servers(), self.topic, &self.from, &self.broker.ends(self.topic, TOPIC.1))
    }

    /// Waits until that many records are in the topic; all that are there.
    ///
    /// # Panics
    /// At the deadline.
    pub fn arrive(&self, records: i64, limit: Duration) -> Vec<Found> {
        let deadline = Instant::now() + limit;
        loop {
            let ends = self.broker.ends(self.topic, TOPIC.1);
            let there: i64 = ends.iter().zip(&self.from).map(|(end, from)| end - from).sum();
            if there >= records {
                return self.found();
            }
            let seen = || self.events.seen().describe();
            assert!(Instant::now() < deadline, "{there} of {records} records after {limit:?}:\n{}", seen());
            self.events.wait_briefly(Duration::from_millis(5), |seen| seen.deserter().is_some());
        }
    }
}

/// The statement that puts rows of a lane into the outbox of PostgreSQL, as enqueueing does.
pub fn rows(topic: &str, lane: i64, numbers: std::ops::Range<i64>) -> String {
    format!(
        "INSERT INTO idempotent_jobs.outbox (topic, key, key_parts, partition_key, payload, shard, ordered, size) \
         SELECT '{topic}', '[{lane},' || n || ']', 'lane,n', '{lane}', \
         convert_to('{{\"lane\":{lane},\"n\":' || n || '}}', 'UTF8'), {lane} % 32, true, 200 \
         FROM generate_series({}, {}) AS n ORDER BY n",
        numbers.start,
        numbers.end - 1
    )
}

/// What is in a topic from these offsets up to those.
///
/// # Panics
/// When it cannot be read in time.
pub fn read(servers: &str, topic: &str, from: &[i64], to: &[i64]) -> Vec<Found> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", fresh("reader"))
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer can be made");
    let mut list = TopicPartitionList::new();
    let mut missing = 0;
    for (partition, (from, to)) in (0..).zip(from.iter().zip(to)) {
        list.add_partition_offset(topic, partition, Offset::Offset(*from)).expect("not below the first offset");
        missing += to - from;
    }
    consumer.assign(&list).expect("partitions can be assigned");
    let deadline = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    while missing > 0 {
        assert!(Instant::now() < deadline, "{missing} records cannot be read");
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let at = usize::try_from(message.partition()).expect("from 0");
        if message.offset() >= to[at] {
            continue;
        }
        missing -= 1;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers: Vec<(String, Option<Vec<u8>>)> = message.headers().map_or_else(Vec::new, |headers| {
            headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
        });
        let dedup = headers.iter().find(|(name, _)| name == "idempotency-key");
        found.push(Found {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(text),
            dedup: dedup.and_then(|(_, value)| value.as_deref()).map(text).unwrap_or_default(),
            payload: message.payload().map(text),
            headers,
        });
    }
    found.sort_by_key(|found| (found.partition, found.offset));
    found
}

/// Of each lane, the numbers in the order of their first copies; and how many copies there are in all.
///
/// # Panics
/// When a record's key is not that of its message.
pub fn first_copies(found: &[Found]) -> (BTreeMap<i64, Vec<i64>>, usize) {
    let mut lanes: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut seen = std::collections::HashSet::new();
    for record in found {
        let Numbered { lane, n } = record.numbered();
        assert_eq!(record.dedup, format!("[{lane},{n}]"), "every copy carries the one key");
        assert_eq!(record.key.as_deref(), Some(lane.to_string().as_str()));
        if seen.insert((lane, n)) {
            lanes.entry(lane).or_default().push(n);
        }
    }
    (lanes, found.len())
}
