//! Attempts that fail and are made again.

use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::world::World;

use super::jobs::{ORDERS, Outside, doing, order};

fn second_attempt_succeeds(does: &str) {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 1), doing(0, 2, does), order(0, 3)]);
    let worker = world.work(["charge"]);
    let source = worker.source;
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("charge"), [1, 2, 3], "each once, in order");
    assert_eq!(world.events.seen().count(source, Point::Claimed), 4, "the claim of the failed attempt went with it");
    assert_eq!(world.skipped(), 0, "a failed attempt leaves no mark");
}

#[test]
fn ded_01_an_attempt_that_failed_leaves_no_claim() {
    second_attempt_succeeds("fail_once");
}

#[test]
fn ded_01_an_attempt_that_panicked_leaves_no_claim() {
    second_attempt_succeeds("panic_once");
}

#[test]
fn ded_01_an_attempt_that_hung_leaves_no_claim() {
    second_attempt_succeeds("hang_once");
}

#[test]
fn con_12_a_handler_longer_than_the_poll_interval_keeps_its_partition() {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 1)]);
    let worker = world.work_as(["long"], |builder| builder.property("max.poll.interval.ms", "10000"));
    let source = worker.source;
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("long"), [1]);
    assert_eq!(world.events.seen().count(source, Point::Claimed), 1, "it ran once and was never taken away");
}

/// The call was made twice, the effect is there once: the receiver can tell by the key.
#[test]
fn side_01_every_attempt_passes_the_same_key_to_the_outside() {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 7), order(0, 7), order(0, 8)]);
    let outside = Outside::default();
    let worker = world.work_as(["calls_out"], |builder| builder.state(outside.clone()));
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("calls_out"), [7, 8]);
    let told = outside.0.lock().expect("the worker is gone").clone();
    let [first, again, other, once_more] = &told[..] else {
        panic!("two attempts of each, none for the copy: {told:?}")
    };
    assert_eq!((first, other), (again, once_more));
    assert_ne!(first, other, "another message, another key");

    // Everything is read again, as after a reset of offsets: nothing calls the outside again.
    let worker = world
        .work_as(["calls_out"], |builder| builder.state(outside.clone()).group_id("another").share_job("calls_out"));
    world.put(&[order(0, 9)]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(outside.0.lock().expect("the worker is gone").len(), 6, "two more for the new message");
}
