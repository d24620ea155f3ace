//! Lanes keep each other from nothing, on the embedded broker and SQLite: CON-20. SQLite runs one
//! job at a time, so whoever keeps its worker keeps all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotent_jobs::__private::Point;
use idempotent_jobs::prelude::*;
use serde::Deserialize;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::database::effect_sqlite;
use tests::worker::Running;
use tests::world::World;

const LANES: &str = "lanes";

/// What ails the stuck message is over.
#[derive(Clone, Default)]
struct Healed(Arc<AtomicBool>);

#[derive(Debug, Deserialize)]
struct Step {
    id: i64,
    #[serde(default)]
    does: String,
}

impl Step {
    async fn run(&self, tx: &mut SqliteTx, meta: &Meta, healed: &Healed) -> JobResult {
        if !healed.0.load(Ordering::Relaxed) {
            match self.does.as_str() {
                "fail" => return Err("the handler says no".into()),
                "hang" => std::future::pending::<()>().await,
                _ => {}
            }
        }
        Ok(effect_sqlite(tx, LANES, self.id, meta).await?)
    }
}

#[idempotent_job(topic = "lanes", key = "id", retries = 9, backoff = "10m..1h", timeout = "1s")]
async fn lane(tx: &mut SqliteTx, step: Step, meta: Meta, State(healed): State<Healed>) -> JobResult {
    step.run(tx, &meta, &healed).await
}

#[idempotent_job(topic = "lanes", key = "id", shared_tx = 200, retries = 9, backoff = "10m..1h", timeout = "5s")]
async fn lane_shared(tx: &mut SqliteTx, step: Step, meta: Meta, State(healed): State<Healed>) -> JobResult {
    step.run(tx, &meta, &healed).await
}

struct Scene {
    world: World,
    job: &'static str,
    healed: Healed,
}

impl Scene {
    fn new(job: &'static str) -> Self {
        Self { world: World::embedded((LANES, 2)), job, healed: Healed::default() }
    }

    fn worker(&self) -> Running {
        self.world.work_as([self.job], |builder| builder.state(self.healed.clone()))
    }

    fn put(&self, records: impl IntoIterator<Item = (i32, i64, String, &'static str)>) {
        let records: Vec<_> = records.into_iter().collect();
        self.world.sent_too(&records.iter().map(|(_, id, ..)| *id).collect::<Vec<_>>());
        let wire = |(partition, id, key, does): &(i32, i64, String, &str)| Wire {
            partition: *partition,
            key: Some(key.clone().into_bytes()),
            payload: Some(json!({ "id": id, "does": does }).to_string().into_bytes()),
            ..Wire::default()
        };
        self.world.put(&records.iter().map(wire).collect::<Vec<_>>());
    }

    /// Waits until so many messages are committed by the worker.
    fn done(&self, worker: &Running, messages: usize) {
        let what = format!("{messages} messages to be done");
        let source = worker.source;
        self.world
            .events
            .wait(&what, PATIENCE, |seen| (seen.count(source, Point::Committed) >= messages).then_some(()));
    }

    fn committed(&self) -> Vec<i64> {
        self.world.broker.committed(&self.world.group, LANES, 2)
    }

    /// Ends the worker, heals what ails the stuck message, and lets the next worker do all.
    fn heal(self, worker: Running) {
        worker.stop().expect("a clean stop");
        assert!(self.committed()[0] <= 0, "nothing moved past the stuck message: {:?}", self.committed());
        self.healed.0.store(true, Ordering::Relaxed);
        // The next worker would keep to the time at which it is due.
        self.world.database.run("UPDATE idempotent_jobs_attempts SET due_at = 0");
        let next = self.worker();
        self.world.settled(PATIENCE);
        next.stop().expect("a clean stop");
        self.world.assert_once();
        let ids = self.world.database.ids(LANES);
        let at = |id| ids.iter().position(|other| *other == id);
        assert!(at(STUCK) < at(BEHIND), "the stuck one first, then the one behind it");
    }
}

/// Two messages of one key, the first of which does not get done.
const STUCK: i64 = 1_000_000;
const BEHIND: i64 = 1_000_001;

fn stuck(does: &'static str) -> [(i32, i64, String, &'static str); 2] {
    [(0, STUCK, "stuck".to_owned(), does), (0, BEHIND, "stuck".to_owned(), "")]
}

/// Messages of fifty keys on a partition.
fn others(partition: i32, ids: std::ops::Range<i64>) -> impl Iterator<Item = (i32, i64, String, &'static str)> {
    ids.map(move |id| (partition, id, format!("{partition}-{}", id % 50), ""))
}

fn one_key_holds_up_no_other(job: &'static str, does: &'static str) {
    let scene = Scene::new(job);
    scene.put(stuck(does));
    scene.put(others(0, 0..600));
    scene.put(others(1, 600..800));
    let worker = scene.worker();
    scene.done(&worker, 800);
    let end = 200 - 1;
    scene
        .world
        .events
        .wait("the other partition's offset", PATIENCE, |seen| seen.is_committed(LANES, 1, end).then_some(()));
    let ids = scene.world.database.ids(LANES);
    assert!(!ids.contains(&STUCK) && !ids.contains(&BEHIND), "the one behind it in its lane waits");
    scene.heal(worker);
}

#[test]
fn con_20_a_key_that_fails_holds_up_no_other() {
    one_key_holds_up_no_other("lane", "fail");
}

#[test]
fn con_20_a_key_that_hangs_holds_up_no_other() {
    one_key_holds_up_no_other("lane", "hang");
}

#[test]
fn con_20_a_key_that_fails_holds_up_no_other_of_its_shared_transactions() {
    one_key_holds_up_no_other("lane_shared", "fail");
}

/// More than 10,000 messages behind it are not read, so that a crash makes no more come again;
/// the other partition goes on.
#[test]
fn con_20_what_is_done_behind_a_stuck_message_is_bounded() {
    const SPAN: usize = 10_000;
    const ALL: i64 = 14_000;
    let scene = Scene::new("lane_shared");
    scene.put(stuck("fail"));
    scene.put(others(0, 0..ALL));
    let worker = scene.worker();
    scene.done(&worker, SPAN - 2);
    // They come after all that the other partition could still have been given.
    scene.put(others(1, ALL..ALL + 2_000));
    let end = 2_000 - 1;
    scene
        .world
        .events
        .wait("the other partition's offset", PATIENCE, |seen| seen.is_committed(LANES, 1, end).then_some(()));
    scene.world.events.wait_briefly(Duration::from_secs(1), |_| false);
    let done = scene.world.events.seen().count(worker.source, Point::Committed) - 2_000;
    println!("{done} messages are done behind the stuck one");
    assert!((SPAN - 2..SPAN + 1_000).contains(&done), "{done} messages are done behind the stuck one");
    scene.heal(worker);
}

fn a_hot_key_starves_no_other(job: &'static str) {
    const HOT: i64 = 3_600;
    const COLD: i64 = 400;
    let scene = Scene::new(job);
    scene.put((0..HOT).map(|id| (0, id, "hot".to_owned(), "")));
    scene.put(others(0, HOT..HOT + COLD));
    let worker = scene.worker();
    scene.world.settled(PATIENCE * 2);
    worker.stop().expect("a clean stop");
    scene.world.assert_once();
    let ids = scene.world.database.ids(LANES);
    let last = ids.iter().rposition(|id| *id >= HOT).expect("the others are done");
    let hot = ids[..last].iter().filter(|id| **id < HOT).count();
    println!("{job}: {hot} of {HOT} messages of the hot key were done before the last of {COLD} others behind them");
    assert!(hot < HOT as usize / 2, "{hot} messages of the hot key were done before the last other");
    let order: Vec<i64> = ids.into_iter().filter(|id| *id < HOT).collect();
    assert!(order.is_sorted(), "the hot key's effects are in the order of the log");
}

#[test]
fn con_20_a_hot_key_starves_no_other() {
    a_hot_key_starves_no_other("lane");
}

#[test]
fn con_20_a_hot_key_starves_no_other_of_its_shared_transactions() {
    a_hot_key_starves_no_other("lane_shared");
}
