//! Errors that are decisions: not now, and not at all.

use std::sync::atomic::Ordering;

use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::world::World;

use super::jobs::{Mood, ORDERS, doing, order};

#[test]
fn a_snoozed_message_waits_without_an_attempt_and_the_others_go_on() {
    let world = World::embedded(ORDERS);
    world.put(&[doing(0, 1, "snooze"), order(0, 2), order(1, 3)]);
    let mood = Mood::default();
    let worker = world.work_as(["moody"], |builder| builder.state(mood.clone()));
    // A job without retries: an attempt that counted would be its death.
    world.events.wait_count(worker.source, Point::Claimed, 6);
    world.events.wait_count(worker.source, Point::Committed, 2);
    assert_eq!(world.database.ids("moody").len(), 2, "the others are done, and it is not");
    mood.0.store(true, Ordering::SeqCst);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    let mut ids = world.database.ids("moody");
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    assert!(world.letters().is_empty());
}

#[test]
fn a_discarded_message_is_done_without_effect_and_is_a_duplicate_afterwards() {
    let world = World::embedded(ORDERS);
    world.put(&[doing(0, 1, "discard"), order(0, 2)]);
    let mood = Mood::default();
    let worker = world.work_as(["moody"], |builder| builder.state(mood.clone()));
    world.settled(PATIENCE);
    assert_eq!(world.database.ids("moody"), [2]);
    mood.0.store(true, Ordering::SeqCst);
    world.put(&[doing(0, 1, "discard")]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("moody"), [2], "it counts as done");
    assert_eq!(world.skipped(), 1);
    assert!(world.letters().is_empty());
}
