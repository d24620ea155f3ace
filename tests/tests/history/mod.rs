//! What the database and Kafka know of each other, and what becomes of messages when they differ.

#![allow(dead_code, reason = "some need real servers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use idempotent_jobs::PgTx;
use idempotent_jobs::prelude::*;
use serde::Deserialize;
use tests::PATIENCE;
use tests::child::Child;
use tests::database::{Kind, effect_pg};
use tests::events::Seen;
use tests::world::{CRASH, World};

/// What ails the second of two jobs is over.
#[derive(Clone, Default)]
pub struct Healed(Arc<AtomicBool>);

#[derive(Debug, Deserialize)]
struct Step {
    id: i64,
}

#[idempotent_job(topic = "crash", key = "id")]
async fn history_first(tx: &mut PgTx, step: Step, meta: Meta) -> JobResult {
    Ok(effect_pg(tx, "history_first", step.id, &meta).await?)
}

#[idempotent_job(topic = "crash", key = "id")]
async fn history_second(tx: &mut PgTx, step: Step, meta: Meta, State(healed): State<Healed>) -> JobResult {
    if step.id >= 1_000 && !healed.0.load(Ordering::Relaxed) {
        // Long enough for the worker to find out, meanwhile, that another server answers.
        return Err(JobError::snooze(Duration::from_secs(12)));
    }
    Ok(effect_pg(tx, "history_second", step.id, &meta).await?)
}

/// Between two looks at the effects.
const LOOK: Duration = Duration::from_millis(100);

const LOST: &str = "the database lost history";

fn table(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Sqlite => format!("idempotent_jobs_{name}"),
        Kind::Postgres => format!("idempotent_jobs.{name}"),
    }
}

fn start(world: &World, properties: &[(&str, &str)]) -> Child {
    world.start(world.command(properties))
}

/// Waits until so many effects are in the database, whatever was told of commits before.
fn effects(world: &World, count: i64) {
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let there = world.database.number("SELECT count(*) FROM effects");
        if there >= count {
            assert_eq!(there, count, "none is there twice");
            return;
        }
        assert!(Instant::now() < deadline, "{there} of {count} effects:\n{}", world.events.seen().describe());
        world.events.wait_briefly(LOOK, |_| false);
    }
}

fn said(world: &World, child: &Child, words: &str) -> bool {
    world.events.seen().has_said(child.source, words)
}

/// Each watermark is at or above the offset that Kafka has.
fn assert_ordered(world: &World) {
    let unnamed = format!("SELECT count(*) FROM {} WHERE topic_id IS NULL", table(world.database.kind, "watermarks"));
    assert_eq!(world.database.number(&unnamed), 0, "the brokers give ids to topics");
    let (topic, partitions) = world.topic;
    let committed = world.broker.committed(&world.group, topic, partitions);
    for (number, committed) in committed.iter().enumerate() {
        let sql = format!(
            "SELECT \"offset\" FROM {} WHERE topic = '{topic}' AND \"partition\" = {number} AND \"group\" = '{}'",
            table(world.database.kind, "watermarks"),
            world.group
        );
        let watermark = world.database.number(&sql);
        assert!(watermark >= *committed, "partition {number}: watermark {watermark}, committed {committed}");
    }
}

/// A copy is made, work is done, the copy is put back.
pub fn put_back(kind: Kind, properties: &[(&str, &str)]) {
    let world = World::of(kind, CRASH);
    let first = start(&world, properties);
    world.send(0..200);
    world.settled(PATIENCE);
    first.stop();
    assert_ordered(&world);
    let copy = world.database.copy();
    let second = start(&world, properties);
    world.send(200..600);
    world.settled(PATIENCE);
    assert!(!said(&world, &second, LOST), "nothing was lost yet");
    second.stop();
    world.database.put_back(copy);
    assert_eq!(world.database.number("SELECT count(*) FROM effects"), 200);
    let third = start(&world, properties);
    effects(&world, 600);
    third.heard(LOST);
    world.send(600..620);
    effects(&world, 620);
    third.stop();
    world.assert_once();
    assert_ordered(&world);
    // Nothing is in doubt any more.
    let last = start(&world, properties);
    world.send(620..630);
    effects(&world, 630);
    assert!(!said(&world, &last, LOST));
    last.stop();
    world.assert_once();
}

/// The copy is of a time before the group read the topic.
pub fn forgotten(kind: Kind) {
    let world = World::of(kind, CRASH);
    let first = world.child();
    world.send(0..100);
    world.settled(PATIENCE);
    first.stop();
    for name in ["effects".to_owned(), table(kind, "processed"), table(kind, "watermarks")] {
        world.database.run(&format!("DELETE FROM {name}"));
    }
    let second = world.child();
    effects(&world, 100);
    second.heard(LOST);
    second.stop();
    world.assert_once();
    assert_ordered(&world);
}

/// A worker goes on while another server, which lags, takes the database's place.
pub fn replaced(properties: &[(&str, &str)], busy: bool) {
    let world = World::real(CRASH);
    let child = start(&world, properties);
    world.send(0..200);
    world.settled(PATIENCE);
    let copy = world.database.copy();
    world.send(200..700);
    effects(&world, 700);
    if !busy {
        world.settled(PATIENCE);
    }
    world.database.put_back(copy);
    if busy {
        world.send(700..900);
    }
    let all = if busy { 900 } else { 700 };
    effects(&world, all);
    world.send(1_000..1_010);
    effects(&world, all + 10);
    child.stop();
    world.assert_once();
    assert_ordered(&world);
}

pub fn killed_between(kind: Kind) {
    let world = World::of(kind, CRASH);
    let mut first = world.child();
    world.send(0..20);
    world.settled(PATIENCE);
    first.halt_at(Point::Recorded, 1);
    world.send(20..40);
    first.halted();
    first.kill();
    let next = world.child();
    world.settled(PATIENCE);
    assert!(!said(&world, &next, LOST));
    next.stop();
    world.assert_once();
    assert_ordered(&world);
}

/// A person sets the group back; then once more, when the keys are purged.
pub fn set_back() {
    let world = World::real(CRASH);
    let begin = world.broker.ends(CRASH.0, CRASH.1);
    let first = world.child();
    world.send(0..100);
    world.settled(PATIENCE);
    first.stop();
    world.broker.rewind(&world.group, CRASH.0, &begin);
    let second = world.child();
    world.events.wait_count(second.source, Point::Skipped, 100);
    world.send(100..110);
    effects(&world, 110);
    second.stop();
    world.assert_once();
    world.database.run("UPDATE idempotent_jobs.watermarks SET purged_to = \"offset\" - 5");
    world.database.run("DELETE FROM idempotent_jobs.processed");
    world.broker.rewind(&world.group, CRASH.0, &begin);
    let third = world.child();
    third.heard("would be done again");
    let status = third.ended(PATIENCE);
    assert!(!status.success(), "it stops: {status}");
    world.assert_once();
}

/// What it skips was to be skipped.
pub fn moved_ahead() {
    let world = World::real(CRASH);
    let first = world.child();
    world.send(0..20);
    world.settled(PATIENCE);
    first.stop();
    world.send(20..40);
    let ends = world.broker.ends(CRASH.0, CRASH.1);
    world.broker.rewind(&world.group, CRASH.0, &ends);
    let second = world.child();
    second.heard("moved the group's offset");
    world.send(40..60);
    effects(&world, 40);
    assert!(!said(&world, &second, LOST));
    second.stop();
    assert_ordered(&world);
}

/// Keys are gone too, so that whatever is read again would be done again.
pub fn expired() {
    let world = World::real(CRASH);
    let first = world.child();
    world.send(0..100);
    world.settled(PATIENCE);
    first.stop();
    world.broker.forget(&world.group);
    assert_eq!(world.broker.committed(&world.group, CRASH.0, CRASH.1), [-1, -1]);
    world.database.run("DELETE FROM idempotent_jobs.processed");
    let second = world.child();
    second.heard("the group has no committed offset");
    world.send(100..120);
    effects(&world, 120);
    second.stop();
    world.assert_once();
    assert_ordered(&world);
}

pub fn made_anew(messages: i64) {
    let world = World::real(CRASH);
    let first = world.child();
    world.send(0..100);
    world.settled(PATIENCE);
    first.stop();
    world.broker.remake(CRASH.0, CRASH.1);
    world.send(1_000..1_000 + messages);
    let second = world.child();
    second.heard("made anew");
    effects(&world, 100 + messages);
    second.stop();
    world.assert_once();
    assert_ordered(&world);
}

/// Of the two jobs of a message, the first is done when another server takes over that does not know of it.
pub fn replaced_between_two_jobs() {
    let world = World::real(CRASH);
    let healed = Healed::default();
    let worker = world.work_as(["history_first", "history_second"], |builder| builder.state(healed.clone()));
    world.send(0..20);
    world.settled(PATIENCE);
    let copy = world.database.copy();
    world.send([1_000]);
    let is_done = |job| world.database.ids(job).contains(&1_000);
    let until = |what, job| {
        let deadline = Instant::now() + PATIENCE;
        while !is_done(job) {
            assert!(Instant::now() < deadline, "{what}:\n{}", world.events.seen().describe());
            world.events.wait_briefly(LOOK, |_| false);
        }
    };
    until("the first job is done", "history_first");
    world.database.put_back(copy);
    assert!(!is_done("history_first"));
    healed.0.store(true, Ordering::Relaxed);
    until("the second job is done", "history_second");
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    for job in ["history_first", "history_second"] {
        let ids = world.database.ids(job);
        assert_eq!(ids.iter().filter(|id| **id == 1_000).count(), 1, "{job}: {ids:?}");
    }
}

/// Copies are made and put back in the middle of the work, so that some of them know the last watermark and not
/// all that was done behind it.
pub fn replaced_under_load(properties: &[(&str, &str)]) {
    const ROUNDS: i64 = 6;
    let world = World::real(CRASH);
    let child = start(&world, properties);
    world.joined(&child, PATIENCE);
    world.settled(PATIENCE);
    let before = world.database.number("SELECT count(*) FROM effects");
    for round in 0..ROUNDS {
        let from = 10_000 + round * 400;
        world.send(from..from + 200);
        world.events.wait_briefly(Duration::from_millis(50 * round.unsigned_abs()), |_| false);
        let copy = world.database.copy();
        world.send(from + 200..from + 400);
        let some = world.events.seen().count(child.source, Point::Committed) + 50;
        world.events.wait_briefly(PATIENCE, |seen| seen.count(child.source, Point::Committed) >= some);
        world.database.put_back(copy);
    }
    effects(&world, before + ROUNDS * 400);
    child.stop();
    world.assert_once();
    assert_ordered(&world);
}

/// Killed again and again, and older copies put back in between.
pub fn killed_and_put_back() {
    const ROUNDS: i64 = 8;
    let world = World::real(CRASH);
    let mut copy = None;
    for round in 0..ROUNDS {
        let child = world.child();
        world.send(round * 100..(round + 1) * 100);
        let kills = 20 + 10 * usize::try_from(round).expect("not negative");
        let done = |seen: &Seen| seen.count(child.source, Point::Committed) + seen.count(child.source, Point::Skipped);
        world.events.wait_briefly(PATIENCE, |seen| done(seen) >= kills);
        child.kill();
        if let Some(copy) = copy.take() {
            world.database.put_back(copy);
        } else {
            copy = Some(world.database.copy());
        }
    }
    let last = world.child();
    effects(&world, ROUNDS * 100);
    last.stop();
    world.assert_once();
    assert_ordered(&world);
}

/// It ends all the same; what it could not record is not committed.
pub fn stopped_without_database() {
    let world = World::real(CRASH);
    let first = world.child();
    world.send(0..100);
    world.events.wait_count(first.source, Point::Committed, 100);
    world.database.close();
    first.terminate();
    let began = Instant::now();
    first.ended(PATIENCE);
    assert!(began.elapsed() < Duration::from_secs(30), "it ended after {:?}", began.elapsed());
    world.database.open();
    assert_ordered(&world);
    let next = world.child();
    world.send(100..110);
    effects(&world, 110);
    assert!(!said(&world, &next, LOST));
    next.stop();
    world.assert_once();
}
