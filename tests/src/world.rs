//! One test's world: a broker, a database, a group, and programs that share them.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use idempotent_jobs::Coordinates;
use serde_json::json;

use crate::PATIENCE;
use crate::broker::{Broker, Wire};
use crate::child::{self, Child};
use crate::database::{Database, Kind, fresh};
use crate::events::{Events, Seen, Source};

/// A topic of the jobs under test, and its partitions.
pub type Topic = (&'static str, i32);

/// The topic of crashes.
pub const CRASH: Topic = ("crash", 2);
/// The topic of rebalances.
pub const FLOW: Topic = ("flow", 8);

/// See the module.
pub struct World {
    pub broker: Broker,
    pub database: Database,
    pub events: Arc<Events>,
    pub group: String,
    pub topic: Topic,
    sent: Mutex<Sent>,
    next: AtomicI64,
    sources: AtomicU32,
}

/// Between two messages for a member that has yet to join.
const DRIP: Duration = Duration::from_millis(50);

/// Between two questions to the broker, when the programs tell nothing.
const LOOK: Duration = Duration::from_secs(2);

/// The last offset sent to each partition.
type Ends = HashMap<(&'static str, i32), i64>;

#[derive(Default)]
struct Sent {
    ids: Vec<i64>,
    ends: Ends,
}

/// What became of the messages that were sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub sent: usize,
    pub lost: usize,
    pub doubled: usize,
}

impl World {
    /// On a broker of its own in this process, with SQLite.
    pub fn embedded(topic: Topic) -> Self {
        Self::on(Broker::embedded(&[topic]), Kind::Sqlite, topic)
    }

    /// On the real Kafka and PostgreSQL of the environment.
    pub fn real(topic: Topic) -> Self {
        Self::on(Broker::real(&[topic]), Kind::Postgres, topic)
    }

    /// The one that goes with a database.
    pub fn of(kind: Kind, topic: Topic) -> Self {
        match kind {
            Kind::Sqlite => Self::embedded(topic),
            Kind::Postgres => Self::real(topic),
        }
    }

    /// A new database and a new group on this broker.
    pub fn on(broker: Broker, kind: Kind, topic: Topic) -> Self {
        let world = Self {
            broker,
            database: Database::new(kind),
            events: Arc::default(),
            group: fresh("test"),
            topic,
            sent: Mutex::default(),
            next: AtomicI64::new(0),
            sources: AtomicU32::new(1),
        };
        if world.broker.is_real() {
            world.broker.begin_at_end(&world.group, topic.0, topic.1);
        }
        world
    }

    /// A number for a program's events.
    pub fn source(&self) -> Source {
        self.sources.fetch_add(1, Ordering::Relaxed)
    }

    /// The command for a child of this world: `crash_child`, with these librdkafka properties.
    pub fn command(&self, properties: &[(&str, &str)]) -> Command {
        let mut command = child::command("crash_child");
        let job = format!("{}_{}", self.topic.0, self.database.kind);
        command.env("DATABASE_URL", self.database.url()).env("KAFKA_BROKERS", self.broker.servers());
        command.env("KAFKA_GROUP_ID", &self.group).env("CHILD_JOB", job);
        for (name, value) in properties {
            command.env(format!("KAFKA_{}", name.to_uppercase().replace('.', "_")), value);
        }
        command
    }

    /// Starts a child.
    pub fn start(&self, command: Command) -> Child {
        Child::start(command, self.source(), &self.events)
    }

    /// Starts a child that finds its partitions at once, also after one that was killed.
    pub fn child(&self) -> Child {
        self.start(self.command(self.quick()))
    }

    /// Properties by which a member that was killed is replaced at once: the embedded broker
    /// sees its connection close, a real one knows the successor by its name.
    pub fn quick(&self) -> &'static [(&'static str, &'static str)] {
        if self.broker.is_real() { &[("group.instance.id", "the-child")] } else { &[("group.protocol", "consumer")] }
    }

    /// Sends one message for each id, evenly over the partitions.
    pub fn send(&self, ids: impl IntoIterator<Item = i64>) {
        self.send_doing(ids, &json!("plain"));
    }

    /// The same, with what the child's handler is to do.
    pub fn send_doing(&self, ids: impl IntoIterator<Item = i64>, does: &serde_json::Value) {
        let (_, partitions) = self.topic;
        let ids: Vec<i64> = ids.into_iter().collect();
        let record = |id: &i64| Wire {
            partition: i32::try_from(id.rem_euclid(i64::from(partitions))).expect("less than the partitions"),
            payload: Some(json!({ "id": id, "does": does }).to_string().into_bytes()),
            ..Wire::default()
        };
        self.put(&ids.iter().map(record).collect::<Vec<_>>());
        self.sent().ids.extend(ids);
    }

    /// Sends messages of the next ids until so many were sent in all.
    pub fn send_up_to(&self, ids: i64) {
        let from = self.next.load(Ordering::Relaxed);
        if ids > from {
            self.send(from..ids);
            self.next.store(ids, Ordering::Relaxed);
        }
    }

    /// Feeds every partition until the child got something of its own to do: it is a member.
    ///
    /// # Panics
    /// When it gets nothing in time.
    pub fn joined(&self, child: &Child, limit: Duration) {
        let deadline = Instant::now() + limit;
        let works = |seen: &Seen| seen.count(child.source, Point::Claimed) > 0;
        while !self.events.wait_briefly(DRIP, works) {
            assert!(
                Instant::now() < deadline,
                "program {} got nothing to do:\n{}",
                child.source,
                self.events.seen().describe()
            );
            self.send_up_to(self.next.load(Ordering::Relaxed) + i64::from(self.topic.1));
        }
    }

    /// Sends records as they are; their offsets.
    pub fn put(&self, records: &[Wire]) -> Vec<i64> {
        let (topic, _) = self.topic;
        self.events.sending();
        let offsets = self.broker.send(topic, records);
        let place = |(record, offset): (&Wire, &i64)| Coordinates {
            topic: topic.into(),
            partition: record.partition,
            offset: *offset,
        };
        self.events.sent(records.iter().zip(&offsets).map(place));
        let mut sent = self.sent();
        for (record, offset) in records.iter().zip(&offsets) {
            let end = sent.ends.entry((topic, record.partition)).or_insert(-1);
            *end = (*end).max(*offset);
        }
        offsets
    }

    /// Counts ids whose records were put as they are.
    pub fn sent_too(&self, ids: &[i64]) {
        self.sent().ids.extend(ids);
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every message sent so far has its offset committed.
    ///
    /// # Panics
    /// At the deadline.
    pub fn settled(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let ends = self.sent().ends.clone();
        let told = |seen: &Seen| ends.iter().all(|((topic, number), end)| seen.is_committed(topic, *number, *end));
        while !self.events.wait_briefly(LOOK, told) && !self.has_committed(&ends) {
            let seen = self.events.seen();
            assert!(
                seen.deserter().is_none() && Instant::now() < deadline,
                "offsets stay behind:\n{}",
                seen.describe()
            );
        }
    }

    /// Waits until every message sent so far has its offset committed, or the child has ended by itself: whether
    /// it lives.
    ///
    /// # Panics
    /// At the deadline.
    pub fn outlives(&self, child: &Child) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let (ends, source) = (self.sent().ends.clone(), child.source);
        self.events.dismiss(source);
        let settled = |seen: &Seen| ends.iter().all(|((topic, at), end)| seen.is_committed(topic, *at, *end));
        while !self.events.wait_briefly(LOOK, |seen| settled(seen) || seen.has_ended(source)) {
            if self.has_committed(&ends) {
                return true;
            }
            assert!(Instant::now() < deadline, "offsets stay behind:\n{}", self.events.seen().describe());
        }
        !self.events.seen().has_ended(source)
    }

    /// Whether every message sent so far has its offset committed, as the broker says.
    pub fn is_settled(&self) -> bool {
        let ends = self.sent().ends.clone();
        self.has_committed(&ends)
    }

    /// A program that dies while it tells of a commit tells the rest to nobody: the broker knows.
    fn has_committed(&self, ends: &Ends) -> bool {
        let committed = self.broker.committed(&self.group, self.topic.0, self.topic.1);
        ends.iter().all(|((_, number), end)| usize::try_from(*number).is_ok_and(|number| committed[number] > *end))
    }

    /// Compares what was sent with the effects.
    pub fn count(&self) -> Count {
        let mut times: HashMap<i64, usize> = HashMap::new();
        for effect in self.database.effects() {
            *times.entry(effect.id).or_default() += 1;
        }
        let ids: HashSet<i64> = self.sent().ids.iter().copied().collect();
        let lost = ids.iter().filter(|id| !times.contains_key(id)).count();
        let doubled = times.values().filter(|times| **times > 1).count();
        Count { sent: ids.len(), lost, doubled }
    }

    /// # Panics
    /// When an effect is missing or twice there.
    pub fn assert_once(&self) {
        let Count { sent, lost, doubled } = self.count();
        assert_eq!((lost, doubled), (0, 0), "of {sent} messages (lost, doubled)");
    }

    /// How many messages were skipped as duplicates, by all programs.
    pub fn skipped(&self) -> usize {
        self.events.seen().total(Point::Skipped)
    }
}
