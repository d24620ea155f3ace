//! Keys used twice: by a copy, by other content, by another job, at the same instant.

use idempotent_jobs::dead_letters::LetterState;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::letters::assert_whole;
use tests::worker::words;
use tests::world::World;

use super::jobs::{ORDERS, json, order};

fn paid(cents: i64) -> Wire {
    json(0, &json!({ "order_id": 1, "op": "charge", "cents": cents }))
}

#[test]
fn ded_02_a_key_with_other_content_is_a_dead_letter_that_names_both_messages() {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 0), paid(1_000), paid(1_000), paid(9_000), order(0, 2)]);
    let worker = world.work(["charge"]);
    world.settled(PATIENCE);
    let letter = world.letter();
    assert_whole(&letter, &paid(9_000));
    assert_eq!((&*letter.reason, letter.message.coordinates.offset), ("conflict", 3));
    for word in ["partition 0, offset 1", "`compare`"] {
        assert!(letter.error.contains(word), "{}", letter.error);
    }
    assert_eq!(world.database.ids("charge"), [0, 1, 2]);
    assert_eq!(world.skipped(), 1, "the copy of the same content");

    // Run again, it is the same conflict, and the good claim stands.
    world.ask();
    assert_eq!(world.answered(), [LetterState::Open]);
    world.put(&[paid(1_000), paid(9_000)]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.letter().reason, "conflict");
    assert_eq!(world.database.ids("charge"), [0, 1, 2]);
}

#[test]
fn ded_02_a_conflict_stops_the_worker_or_is_passed_over_where_that_is_declared() {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 0), paid(1_000), paid(9_000), order(0, 2)]);
    let error = world.work(["charge_or_stop"]).fails();
    words(&error, &["partition 0, offset 2", "reason conflict", "partition 0, offset 1", "`compare`"]);

    let world = World::embedded(ORDERS);
    world.put(&[order(0, 0), paid(1_000), paid(9_000), order(0, 2)]);
    let worker = world.work(["lenient"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("lenient"), [0, 1, 2]);
    assert!(world.letters().is_empty());
}

#[test]
fn key_01_a_key_that_is_too_narrow_is_a_loud_conflict() {
    let world = World::embedded(ORDERS);
    let change = |op| json(0, &json!({ "order_id": 1, "op": op }));
    world.put(&[change("charge"), change("refund")]);
    let worker = world.work(["too_narrow"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    let letter = world.letter();
    assert_eq!((&*letter.reason, letter.message.coordinates.offset), ("conflict", 1));
    assert!(letter.error.contains("widen `key`"), "{}", letter.error);

    // With both parts in the key each runs.
    let world = World::embedded(ORDERS);
    world.put(&[change("charge"), change("refund")]);
    let worker = world.work(["charge"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("charge"), [1, 1]);
}

#[test]
fn ded_03_two_jobs_on_one_topic_both_run_once() {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 1), order(0, 2), order(0, 1), order(1, 2)]);
    let worker = world.work(["charge", "notify"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    for job in ["charge", "notify"] {
        let mut ids = world.database.ids(job);
        ids.sort_unstable();
        assert_eq!(ids, [1, 2], "{job}");
    }
    assert_eq!(world.skipped(), 4, "two copies for each job");
}

#[test]
fn ded_11_the_same_keys_on_two_instances_at_once_run_once() {
    let world = World::embedded(ORDERS);
    let (one, other) = (world.work(["charge"]), world.work(["charge"]));
    let both: Vec<_> = (0..500).flat_map(|id| [order(0, id), order(1, id)]).collect();
    world.put(&both);
    world.settled(PATIENCE);
    one.stop().expect("a clean stop");
    other.stop().expect("a clean stop");
    let mut ids = world.database.ids("charge");
    ids.sort_unstable();
    assert_eq!(ids, (0..500).collect::<Vec<_>>());
    assert_eq!(world.skipped(), 500);
}
