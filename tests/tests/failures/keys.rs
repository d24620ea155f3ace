//! Keys used twice: by a copy, by other content, by another job, at the same instant.

use serde_json::json;
use tests::PATIENCE;
use tests::worker::words;
use tests::world::World;

use super::jobs::{ORDERS, json, order};

#[test]
fn ded_02_a_key_with_other_content_stops_the_worker_and_names_both_messages() {
    let world = World::embedded(ORDERS);
    let paid = |cents| json(0, &json!({ "order_id": 1, "op": "charge", "cents": cents }));
    world.put(&[order(0, 0), paid(1_000), paid(1_000), paid(9_000)]);
    let error = world.work(["charge"]).fails();
    words(&error, &["partition 0, offset 3", "reason conflict", "partition 0, offset 1", "`compare`"]);
    assert_eq!(world.database.ids("charge"), [0, 1]);
    assert_eq!(world.skipped(), 1, "the copy of the same content");
}

#[test]
fn key_01_a_key_that_is_too_narrow_is_a_loud_conflict() {
    let world = World::embedded(ORDERS);
    let change = |op| json(0, &json!({ "order_id": 1, "op": op }));
    world.put(&[change("charge"), change("refund")]);
    let error = world.work(["too_narrow"]).fails();
    words(&error, &["partition 0, offset 1", "reason conflict", "widen `key`"]);

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
