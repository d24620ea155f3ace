//! Messages that cannot be processed: each is a dead letter, and the worker goes on; or stops, where it was told to.

use idempotent_jobs::Fate;
use idempotent_jobs::dead_letters::LetterState;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::letters::assert_whole;
use tests::worker::words;
use tests::world::World;

use super::jobs::{ORDERS, doing, json, order};

/// Five good messages, the poison at offset 5, four more behind it; and a partition without poison.
fn poisoned(poison: &Wire) -> World {
    let world = World::embedded(ORDERS);
    world.put(&(0..5).map(|id| order(0, id)).collect::<Vec<_>>());
    world.put(std::slice::from_ref(poison));
    world.put(&(6..10).map(|id| order(0, id)).collect::<Vec<_>>());
    world.put(&(100..105).map(|id| order(1, id)).collect::<Vec<_>>());
    world
}

/// All good ones are done, in order, and the poison is one dead letter, byte for byte.
fn dies(poison: Wire, reason: &str, expected: &[&str]) {
    let poison = Wire { headers: odd(), ..poison };
    let world = poisoned(&poison);
    let worker = world.work(["charge"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    let letter = world.letter();
    assert_whole(&letter, &poison);
    assert_eq!(letter.message.coordinates.to_string(), "topic orders, partition 0, offset 5");
    assert_eq!((letter.job.as_deref(), &*letter.reason), (Some("charge"), reason));
    for word in expected {
        assert!(letter.error.contains(word), "`{word}` is not in: {}", letter.error);
    }
    let on_0: Vec<i64> = world.database.ids("charge").into_iter().filter(|id| *id < 100).collect();
    assert_eq!(on_0, [0, 1, 2, 3, 4, 6, 7, 8, 9], "everything but the poison, in order");
}

/// Repeated, empty, and no text.
fn odd() -> Vec<(String, Vec<u8>)> {
    vec![("trace".into(), b"1".to_vec()), ("trace".into(), vec![0xff, 0]), ("empty".into(), Vec::new())]
}

/// The worker does what is before the poison, stops there twice, and has committed nothing past it.
fn stops_at(poison: &Wire, expected: &[&str]) {
    let world = poisoned(poison);
    for _ in 0..2 {
        let error = world.work(["charge_or_stop"]).fails();
        words(&error, expected);
        words(&error, &["topic orders, partition 0, offset 5", "job charge_or_stop", "the offset was not committed"]);
    }
    let ids = world.database.ids("charge_or_stop");
    let on_0: Vec<i64> = ids.iter().copied().filter(|id| *id < 100).collect();
    assert_eq!(on_0, [0, 1, 2, 3, 4], "exactly what is before the poison");
    let committed = world.broker.committed(&world.group, "orders", 2);
    assert_eq!(committed[0], 5, "the offset stays at the poison");
    assert!(world.letters().is_empty(), "nothing is kept of what stops the worker: Kafka has it");
}

#[test]
fn what_cannot_be_read_or_done_stops_a_worker_that_is_told_to() {
    stops_at(&Wire { payload: Some(b"{\"a\":".to_vec()), ..Wire::default() }, &["reason decode"]);
    stops_at(&doing(0, 5, "fail"), &["reason exhausted", "3 attempt(s)", "the handler says no"]);
    stops_at(&doing(0, 5, "terminal"), &["reason terminal", "no retry can help"]);
}

#[test]
fn con_10_a_payload_that_is_not_json_is_a_dead_letter() {
    dies(Wire { payload: Some(b"{\"a\":".to_vec()), ..Wire::default() }, "decode", &[]);
}

#[test]
fn con_10_a_payload_that_is_not_text_is_a_dead_letter() {
    dies(Wire { payload: Some(vec![0xff; 8]), ..Wire::default() }, "decode", &[]);
}

/// CON-11: an empty payload is no tombstone.
#[test]
fn con_10_an_empty_payload_is_a_dead_letter() {
    dies(Wire { payload: Some(Vec::new()), ..Wire::default() }, "decode", &[]);
}

#[test]
fn con_11_a_tombstone_is_a_dead_letter() {
    dies(Wire { key: Some(b"A1".to_vec()), payload: None, ..Wire::default() }, "tombstone", &[]);
}

#[test]
fn con_11_a_tombstone_without_a_key_is_a_dead_letter() {
    dies(Wire::default(), "tombstone", &[]);
}

#[test]
fn sch_01_an_unknown_enum_value_is_a_dead_letter() {
    // The value itself may be a secret and is not shown.
    dies(json(0, &json!({ "order_id": 5, "op": "cancel" })), "decode", &["expected `charge` or `refund`"]);
}

#[test]
fn sch_01_a_missing_field_is_a_dead_letter() {
    dies(json(0, &json!({ "order_id": 5 })), "key_missing", &["op"]);
}

#[test]
fn sch_02_a_frame_of_a_schema_registry_is_named() {
    let framed = [b"\0\0\0\0\x07".as_slice(), br#"{"order_id":5,"op":"charge"}"#].concat();
    dies(Wire { payload: Some(framed), ..Wire::default() }, "decode", &["schema registry", "id 7"]);
}

#[test]
fn err_01_a_handler_that_fails_for_ever_is_a_dead_letter() {
    dies(doing(0, 5, "fail"), "exhausted", &["3 attempt(s)", "the handler says no"]);
}

#[test]
fn err_01_a_terminal_error_is_a_dead_letter_at_once() {
    dies(doing(0, 5, "terminal"), "terminal", &["no retry can help"]);
}

#[test]
fn sch_01_a_field_more_is_accepted() {
    let world = World::embedded(ORDERS);
    world.put(&[json(0, &json!({ "order_id": 1, "op": "charge", "added_later": [1, 2] }))]);
    let worker = world.work(["charge"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("charge"), [1]);
}

fn event(id: i64, event: &str) -> Wire {
    Wire { headers: vec![("event".into(), event.into())], ..order(0, id) }
}

#[test]
fn sch_01_an_event_no_job_takes_is_a_dead_letter_for_the_job_to_come() {
    let world = World::embedded(ORDERS);
    world.put(&[event(1, "charged"), event(2, "shipped"), event(3, "charged")]);
    let worker = world.work(["on_charged"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("on_charged"), [1, 3]);
    let letter = world.letter();
    assert_whole(&letter, &event(2, "shipped"));
    assert_eq!((letter.job.as_deref(), &*letter.reason), (None, "unknown_event"));
    assert!(letter.error.contains("`shipped`"), "{}", letter.error);

    // Still no job takes it, and then one is there that takes every event.
    for (jobs, state) in [(["on_charged"], LetterState::Open), (["charge"], LetterState::Redriven)] {
        world.ask();
        let worker = world.work(jobs);
        assert_eq!(world.answered(), [state]);
        worker.stop().expect("a clean stop");
    }
    assert_eq!(world.database.ids("charge"), [2]);
}

#[test]
fn sch_01_an_event_no_job_takes_is_skipped_or_stops_the_worker_where_that_is_chosen() {
    let world = World::embedded(ORDERS);
    world.put(&[event(1, "charged"), event(2, "shipped"), event(3, "charged")]);
    let error = world.work_as(["on_charged"], |builder| builder.on_unknown_event(Fate::Stop)).fails();
    words(&error, &["partition 0, offset 1", "reason unknown_event", "`shipped`"]);
    let worker = world.work_as(["on_charged"], |builder| builder.on_unknown_event(Fate::Skip));
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("on_charged"), [1, 3]);
    assert!(world.letters().is_empty());
}

#[test]
fn con_11_a_tombstone_is_skipped_by_a_job_that_says_so() {
    let world = World::embedded(ORDERS);
    world.put(&[order(0, 1), Wire { key: Some(b"A1".to_vec()), ..Wire::default() }, order(0, 2)]);
    let worker = world.work(["charge_or_stop"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("charge_or_stop"), [1, 2]);
    assert!(world.letters().is_empty());
}
