//! A world whose messages wait for their worker, so that they are taken together.

use std::sync::atomic::{AtomicI64, Ordering};

use idempotent_jobs::__private::Point;
use serde::Serialize;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::database::Kind;
use tests::events::Source;
use tests::worker::Running;
use tests::world::{Topic, World};

use super::jobs::{Gate, Log, Work};

pub const GROUPS: Topic = ("groups", 2);

/// A message to be sent. Unless told otherwise it is a good one with a Kafka key of its own.
#[derive(Debug, Clone, Default)]
pub struct Message {
    work: Work,
    partition: i32,
    lane: Option<String>,
    keyless: bool,
    raw: Option<&'static str>,
}

pub fn message(id: i64) -> Message {
    Message { work: Work { id, ..Work::default() }, ..Message::default() }
}

impl Message {
    pub fn on(mut self, partition: i32) -> Self {
        self.partition = partition;
        self
    }

    /// Its Kafka key.
    pub fn keyed(mut self, lane: &str) -> Self {
        self.lane = Some(lane.to_owned());
        self
    }

    pub fn keyless(mut self) -> Self {
        self.keyless = true;
        self
    }

    /// What its handler does on its first calls.
    pub fn doing(mut self, does: &str, times: usize) -> Self {
        self.work = Work { does: does.to_owned(), times, ..self.work };
        self
    }

    pub fn noting(mut self, note: &str) -> Self {
        self.work.note = note.to_owned();
        self
    }

    /// With a payload that is no message of any job.
    pub fn raw(mut self, payload: &'static str) -> Self {
        self.raw = Some(payload);
        self
    }

    fn wire(&self) -> Wire {
        let lane = self.lane.clone().unwrap_or_else(|| self.work.id.to_string());
        let payload = self.raw.map_or_else(|| text(&self.work), |raw| raw.as_bytes().to_vec());
        Wire {
            partition: self.partition,
            key: (!self.keyless).then(|| lane.into_bytes()),
            payload: Some(payload),
            headers: vec![("event".into(), b"work".into()), ("id".into(), self.work.id.to_string().into_bytes())],
        }
    }
}

fn text(payload: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(payload).expect("a payload is JSON")
}

pub struct Scene {
    pub world: World,
    pub log: Log,
    gates: AtomicI64,
}

impl Scene {
    pub fn new(kind: Kind) -> Self {
        let world = World::of(kind, GROUPS);
        world.database.run("CREATE TABLE limits (id BIGINT PRIMARY KEY)");
        world.database.run("INSERT INTO limits VALUES (1)");
        let late = "BIGINT REFERENCES limits (id) DEFERRABLE INITIALLY DEFERRED";
        world.database.run(&format!("CREATE TABLE parts (of_limit {late})"));
        world.database.run("CREATE TABLE counters (id BIGINT PRIMARY KEY, touched BIGINT NOT NULL)");
        world.database.run("INSERT INTO counters VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)");
        Self { log: Log::of_events(&world.events), world, gates: AtomicI64::new(0) }
    }

    /// Sends the messages behind a gate on each of their partitions, which holds the worker
    /// until the rest is read. Their offsets.
    pub fn send(&self, messages: &[Message]) -> Vec<i64> {
        let mut partitions: Vec<i32> = messages.iter().map(|message| message.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let gates = partitions.len();
        let gated = partitions.into_iter().map(|partition| self.gate(partition));
        let all: Vec<Wire> = gated.chain(messages.iter().map(Message::wire)).collect();
        self.world.put(&all).split_off(gates)
    }

    fn gate(&self, partition: i32) -> Wire {
        let id = self.gates.fetch_add(1, Ordering::Relaxed);
        let headers = vec![("event".into(), b"gate".into())];
        Wire { partition, payload: Some(text(&Gate { id })), headers, ..Wire::default() }
    }

    /// The name of a job on this scene's database.
    pub fn job(&self, form: &str) -> String {
        format!("{form}_{}", self.world.database.kind)
    }

    /// One worker with jobs of these forms, so that it takes all that waits.
    pub fn work(&self, forms: &[&str]) -> Running {
        self.work_beside(forms, 1)
    }

    /// The same with so many at a time.
    pub fn work_beside(&self, forms: &[&str], jobs_at_once: usize) -> Running {
        let jobs: Vec<String> = forms.iter().chain(&["gate"]).map(|form| self.job(form)).collect();
        let log = self.log.clone();
        self.world.work_as([], |builder| builder.jobs(jobs).concurrency(jobs_at_once).state(log))
    }

    /// Works until everything that was sent is settled; which program it was.
    pub fn work_off(&self, forms: &[&str]) -> Source {
        let worker = self.work(forms);
        let source = worker.source;
        self.world.settled(PATIENCE);
        worker.stop().expect("a clean stop");
        source
    }

    /// Runs all dead letters again.
    pub fn redrive(&self, form: &str) {
        self.world.ask();
        let worker = self.work(&[form]);
        self.world.answered();
        worker.stop().expect("a clean stop");
    }

    /// The ids of a form's effects, in the order they were written.
    pub fn ids(&self, form: &str) -> Vec<i64> {
        self.world.database.ids(&self.job(form))
    }

    /// The same in their own order.
    pub fn sorted(&self, form: &str) -> Vec<i64> {
        let mut ids = self.ids(form);
        ids.sort_unstable();
        ids
    }

    /// The attempts of a message, call by call.
    pub fn attempts(&self, form: &str, id: i64) -> Vec<u32> {
        let at = |call: super::jobs::Call| {
            let place = call.ids.iter().position(|other| *other == id).expect("the call was given this id");
            call.attempts[place]
        };
        self.log.of(&self.job(form), id).into_iter().map(at).collect()
    }

    /// The most messages that a program, which has one worker, brought to `point` in a row: in
    /// transactions of their own, each would have reached another point in between.
    fn together(&self, source: Source, point: Point) -> usize {
        const OF_A_TRANSACTION: [Point; 3] = [Point::Claimed, Point::Handled, Point::Committed];
        let seen = self.world.events.seen();
        let own = seen.events.iter().filter(|event| event.source == source && OF_A_TRANSACTION.contains(&event.point));
        let points: Vec<Point> = own.map(|event| event.point).collect();
        points.chunk_by(|one, other| one == other).filter(|row| row[0] == point).map(<[Point]>::len).max().unwrap_or(0)
    }

    /// # Panics
    /// When so many were not claimed in one transaction.
    pub fn assert_tried(&self, source: Source, messages: usize) {
        let most = self.together(source, Point::Claimed);
        assert!(most >= messages, "{most} messages were claimed together, not {messages}");
    }

    /// # Panics
    /// When so many were not committed in one transaction.
    pub fn assert_done(&self, source: Source, messages: usize) {
        let most = self.together(source, Point::Committed);
        assert!(most >= messages, "{most} messages were committed together, not {messages}");
    }
}
