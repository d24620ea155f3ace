//! A scripted intake: keeps what it was given, settles what the test says, and wakes the test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use idempotent_jobs::__private::kafka::{
    Consumer, ConsumerHandle, Intake, Partition, Position, Producer, Properties, Record, Room, Settings, embedded::Broker,
};
use idempotent_jobs::{Error, Message};

/// Nothing in these tests may take longer.
pub const PATIENCE: Duration = Duration::from_secs(40);

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

    /// Waits until the log is as wanted.
    pub fn wait(&self, what: &str, mut wanted: impl FnMut(&Log) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut log = self.log.lock().unwrap();
        while !wanted(&log) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}: {} accepted, {} handled, failed {:?}", log.accepted.len(), log.handled.len(), log.failed);
            log = self.changed.wait_timeout(log, left).unwrap().0;
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

    fn revoked(&self, partitions: &[Partition], _: Instant) -> Vec<Position> {
        self.read(|log| {
            log.revocations += 1;
            let gone = partitions.iter().filter_map(|partition| Some((partition, log.lanes.remove(partition)?)));
            gone.filter_map(|(partition, lane)| Some(Position { partition: partition.clone(), offset: lane.settled? })).collect()
        })
    }

    fn lost(&self, partitions: &[Partition]) {
        self.read(|log| {
            log.losses += 1;
            partitions.iter().for_each(|partition| _ = log.lanes.remove(partition));
        });
    }

    fn accept(&self, message: Message) -> Room {
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
            moved.filter_map(|(partition, lane)| Some(Position { partition: partition.clone(), offset: lane.settled? })).collect()
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

    fn failed(&self, error: Error) {
        self.read(|log| log.failed.push(error.to_string()));
    }
}

pub fn broker(partitions: i32) -> Broker {
    Broker::start(&[("orders", partitions)]).unwrap()
}

/// Properties of a group on that broker.
pub fn member(servers: &str, group: &str) -> Properties {
    Properties::new(servers).group(group)
}

pub fn join(properties: &Properties, intake: &Arc<Recorder>) -> ConsumerHandle {
    let mut settings = Settings::default();
    settings.commit_interval = Duration::from_millis(20);
    Consumer::start_with(settings, properties, &["orders".to_owned()], intake.clone()).unwrap()
}

pub fn producer(servers: &str) -> Producer {
    Producer::builder().brokers(servers).property("linger.ms", "0").build().unwrap()
}

pub fn record(key: &str, payload: &str) -> Record {
    Record {
        topic: "orders".to_owned(),
        key: Some(key.as_bytes().to_vec()),
        payload: Some(payload.as_bytes().to_vec()),
        ..Record::default()
    }
}

/// Sends records `from..to`, spread over the partitions by their keys.
pub async fn send(producer: &Producer, from: usize, to: usize) {
    let mut tasks = Vec::new();
    for number in from..to {
        let producer = producer.clone();
        tasks.push(tokio::spawn(async move { producer.send_record(record(&number.to_string(), "{}")).await.unwrap() }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// The group's committed offsets of `orders`.
pub fn offsets(properties: &Properties, partitions: i32) -> BTreeMap<i32, i64> {
    let topics = BTreeMap::from([("orders".to_owned(), partitions)]);
    let offsets = idempotent_jobs::__private::kafka::committed(properties, &topics, Duration::from_secs(10)).unwrap();
    offsets.into_iter().map(|((_, partition), offset)| (partition, offset)).collect()
}
