//! A scripted intake: keeps what it was given, settles what the test says, and wakes the test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use idempotent_jobs::__private::kafka::{
    Consumer, ConsumerHandle, Intake, Partition, Position, Producer, Properties, Record, Room, Settings, committed,
    embedded::Broker,
};
use idempotent_jobs::{Error, Message};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

/// Nothing in these tests may take longer.
const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Default)]
pub struct Lane {
    pub queue: VecDeque<Message>,
    pub settled: Option<i64>,
    pub confirmed: Option<i64>,
    full: bool,
}

#[derive(Default)]
pub struct Log {
    pub lanes: BTreeMap<Partition, Lane>,
    pub accepted: Vec<Message>,
    pub handled: Vec<(Partition, i64)>,
    pub assignments: usize,
    pub revocations: usize,
    pub losses: usize,
    pub committed: Vec<Position>,
    pub failed: Vec<String>,
    pub fulls: usize,
    pub strays: usize,
    /// Turns of the consumer's thread.
    pub polls: usize,
    /// `accept` does not return.
    pub stuck: bool,
    /// Everything queued is handled when the time of a revoke is up.
    pub finishes_late: bool,
    /// `work` is to end.
    pub resting: bool,
}

pub struct Recorder {
    log: Mutex<Log>,
    changed: Condvar,
    /// Settle each message as it comes.
    prompt: bool,
    /// Messages of a partition at which it is full; room again at half of them.
    capacity: usize,
}

impl Recorder {
    /// Settles everything at once.
    pub fn prompt() -> Arc<Self> {
        Self::new(true, usize::MAX)
    }

    /// Settles nothing until `handle` is called, and is full at `capacity`.
    pub fn patient(capacity: usize) -> Arc<Self> {
        Self::new(false, capacity)
    }

    fn new(prompt: bool, capacity: usize) -> Arc<Self> {
        Arc::new(Self { log: Mutex::default(), changed: Condvar::new(), prompt, capacity })
    }

    pub fn read<T>(&self, look: impl FnOnce(&mut Log) -> T) -> T {
        let answer = look(&mut self.log.lock().unwrap());
        self.changed.notify_all();
        answer
    }

    /// Waits until the consumer's thread has gone round a few times more.
    pub fn wait_for_polls(&self) {
        let seen = self.read(|log| log.polls);
        self.wait("further polls", |log| log.polls >= seen + 8);
    }

    /// Waits until the log is as wanted.
    pub fn wait(&self, what: &str, mut wanted: impl FnMut(&Log) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut log = self.log.lock().unwrap();
        while !wanted(&log) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "waited in vain for {what}: {} accepted, {} handled, failed {:?}",
                log.accepted.len(),
                log.handled.len(),
                log.failed
            );
            log = self.changed.wait_timeout(log, left).unwrap().0;
        }
    }

    /// Handles one message of each partition at a time until it is told to rest.
    pub fn work(&self) {
        let mut log = self.log.lock().unwrap();
        while !log.resting {
            if log.handle(1) == 0 {
                log = self.changed.wait(log).unwrap();
            } else {
                self.changed.notify_all();
            }
        }
    }

    /// Handles up to `count` queued messages of every partition.
    pub fn handle(&self, count: usize) -> usize {
        self.read(|log| log.handle(count))
    }
}

impl Log {
    fn handle(&mut self, count: usize) -> usize {
        let mut done = 0;
        for (partition, lane) in &mut self.lanes {
            for message in lane.queue.drain(..count.min(lane.queue.len())) {
                lane.settled = Some(message.coordinates.offset + 1);
                self.handled.push((partition.clone(), message.coordinates.offset));
                done += 1;
            }
        }
        done
    }
}

impl Intake for Recorder {
    fn assigned(&self, partitions: &[Partition]) {
        self.read(|log| {
            log.assignments += 1;
            for partition in partitions {
                log.lanes.insert(partition.clone(), Lane::default());
            }
        });
    }

    fn revoked(&self, partitions: &[Partition], deadline: Instant) -> Vec<Position> {
        let late = self.read(|log| {
            log.revocations += 1;
            log.finishes_late
        });
        if late {
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
            self.handle(usize::MAX);
        }
        self.read(|log| {
            let gone = partitions.iter().filter_map(|partition| Some((partition, log.lanes.remove(partition)?)));
            gone.filter_map(|(partition, lane)| Some(Position { partition: partition.clone(), offset: lane.settled? }))
                .collect()
        })
    }

    fn lost(&self, partitions: &[Partition]) {
        self.read(|log| {
            log.losses += 1;
            partitions.iter().for_each(|partition| _ = log.lanes.remove(partition));
        });
    }

    fn accept(&self, message: Message) -> Room {
        drop(self.changed.wait_while(self.log.lock().unwrap(), |log| log.stuck).unwrap());
        self.read(|log| {
            let at = &message.coordinates;
            let partition = Partition { topic: at.topic.clone(), number: at.partition };
            log.accepted.push(message.clone());
            let Some(lane) = log.lanes.get_mut(&partition) else {
                log.strays += 1;
                return Room::Open;
            };
            lane.queue.push_back(message);
            let full = lane.queue.len() >= self.capacity;
            lane.full |= full;
            log.fulls += usize::from(full);
            if self.prompt {
                log.handle(usize::MAX);
            }
            if full { Room::Full } else { Room::Open }
        })
    }

    fn relieved(&self) -> Vec<Partition> {
        let half = self.capacity / 2;
        self.read(|log| {
            let relieved = log.lanes.iter_mut().filter(|(_, lane)| lane.full && lane.queue.len() <= half);
            relieved
                .map(|(partition, lane)| {
                    lane.full = false;
                    partition.clone()
                })
                .collect()
        })
    }

    fn settled(&self) -> Vec<Position> {
        self.read(|log| {
            let moved = log.lanes.iter().filter(|(_, lane)| lane.settled > lane.confirmed);
            moved
                .filter_map(|(partition, lane)| Some(Position { partition: partition.clone(), offset: lane.settled? }))
                .collect()
        })
    }

    fn committed(&self, positions: &[Position]) {
        self.read(|log| {
            for position in positions {
                log.committed.push(position.clone());
                if let Some(lane) = log.lanes.get_mut(&position.partition) {
                    lane.confirmed = lane.confirmed.max(Some(position.offset));
                }
            }
        });
    }

    fn polled(&self) {
        self.read(|log| log.polls += 1);
    }

    fn failed(&self, error: Error) {
        self.read(|log| log.failed.push(error.to_string()));
    }
}

/// A topic of its own on a broker, with what the tests do there.
pub struct Place {
    pub servers: String,
    pub topic: String,
    broker: Option<Broker>,
}

/// On the embedded broker, where faults can be made.
pub fn embedded(partitions: i32) -> Place {
    let broker = Broker::start(&[("orders", partitions)]).unwrap();
    Place { servers: broker.bootstrap_servers().to_owned(), topic: "orders".to_owned(), broker: Some(broker) }
}

/// On the Kafka at `TEST_KAFKA_BROKERS` if that is set, else on the embedded broker.
pub async fn place(partitions: i32) -> Place {
    let Ok(servers) = std::env::var("TEST_KAFKA_BROKERS") else { return embedded(partitions) };
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    let topic = format!("t{now}-{}", NEXT.fetch_add(1, Ordering::SeqCst));
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &servers).create().unwrap();
    let new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
    admin.create_topics(&[new], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    Place { servers, topic, broker: None }
}

impl Place {
    pub fn broker(&self) -> &Broker {
        self.broker.as_ref().unwrap()
    }

    pub fn is_real(&self) -> bool {
        self.broker.is_none()
    }

    /// Properties of the topic's own group.
    pub fn member(&self) -> Properties {
        let properties = Properties::new(&self.servers).group(format!("g-{}", self.topic));
        // The embedded broker lets every later generation of a classic group wait for a second
        // less than the session timeout.
        let shorter = [("session.timeout.ms", "1500"), ("heartbeat.interval.ms", "300")];
        if self.broker.is_none() {
            return properties;
        }
        properties.set_all(shorter.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    /// The same by KIP-848.
    pub fn modern_member(&self) -> Properties {
        Properties::new(&self.servers).group(format!("g-{}", self.topic)).set("group.protocol", "consumer")
    }

    pub fn join(&self, properties: &Properties, intake: &Arc<Recorder>) -> ConsumerHandle {
        let mut settings = Settings::default();
        settings.commit_interval = Duration::from_millis(20);
        self.join_with(settings, properties, intake)
    }

    pub fn join_with(&self, settings: Settings, properties: &Properties, intake: &Arc<Recorder>) -> ConsumerHandle {
        Consumer::start_with(settings, properties, std::slice::from_ref(&self.topic), intake.clone()).unwrap()
    }

    pub fn producer(&self) -> Producer {
        Producer::builder().brokers(&self.servers).property("linger.ms", "0").build().unwrap()
    }

    pub fn record(&self, key: &str, payload: &str) -> Record {
        Record {
            topic: self.topic.clone(),
            key: Some(key.as_bytes().to_vec()),
            payload: Some(payload.as_bytes().to_vec()),
            ..Record::default()
        }
    }

    /// Sends records `from..to`, spread over the partitions by their keys.
    pub async fn send(&self, producer: &Producer, from: usize, to: usize) {
        let mut tasks = tokio::task::JoinSet::new();
        for number in from..to {
            let (producer, record) = (producer.clone(), self.record(&number.to_string(), "{}"));
            tasks.spawn(async move { producer.send_record(record).await.unwrap() });
        }
        tasks.join_all().await;
    }

    /// The group's committed offsets of the topic.
    pub fn offsets(&self, properties: &Properties, partitions: i32) -> BTreeMap<i32, i64> {
        let topics = BTreeMap::from([(self.topic.clone(), partitions)]);
        let offsets = committed(properties, &topics, Duration::from_secs(10)).unwrap();
        offsets.into_iter().map(|((_, partition), offset)| (partition, offset)).collect()
    }

    /// Waits until that many messages are committed: a commit that a rebalance refused is made up
    /// for once its messages have come again.
    pub fn wait_for_offsets(&self, properties: &Properties, partitions: i32, total: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let committed: i64 = self.offsets(properties, partitions).values().sum();
            let total = i64::try_from(total).unwrap();
            assert!(committed <= total, "{committed} of {total} committed");
            if committed == total {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain for the commits: {committed} of {total}");
        }
    }
}
