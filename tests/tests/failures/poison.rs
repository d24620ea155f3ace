//! Messages that cannot be processed stop the worker before their offset.

use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::worker::words;
use tests::world::World;

use super::jobs::{ORDERS, doing, json, order};

/// Five good messages, the poison at offset 5, four more behind it; and a partition without poison.
/// The worker does what is before it, stops there twice, and has committed nothing past it.
fn stops_at(poison: Wire, expected: &[&str]) {
    let world = World::embedded(ORDERS);
    world.put(&(0..5).map(|id| order(0, id)).collect::<Vec<_>>());
    world.put(&[Wire { partition: 0, ..poison }]);
    world.put(&(6..10).map(|id| order(0, id)).collect::<Vec<_>>());
    world.put(&(100..105).map(|id| order(1, id)).collect::<Vec<_>>());
    for _ in 0..2 {
        let error = world.work(["charge"]).fails();
        words(&error, expected);
        words(&error, &["topic orders, partition 0, offset 5", "job charge", "the offset was not committed"]);
    }
    let ids = world.database.ids("charge");
    let on_0: Vec<i64> = ids.iter().copied().filter(|id| *id < 100).collect();
    assert_eq!(on_0, [0, 1, 2, 3, 4], "exactly what is before the poison");
    let committed = world.broker.committed(&world.group, "orders", 2);
    assert_eq!(committed[0], 5, "the offset stays at the poison");
}

#[test]
fn con_10_a_payload_that_is_not_json_stops_the_worker() {
    stops_at(Wire { payload: Some(b"{\"a\":".to_vec()), ..Wire::default() }, &["reason decode"]);
}

#[test]
fn con_10_a_payload_that_is_not_text_stops_the_worker() {
    stops_at(Wire { payload: Some(vec![0xff; 8]), ..Wire::default() }, &["reason decode"]);
}

/// CON-11: an empty payload is no tombstone.
#[test]
fn con_10_an_empty_payload_stops_the_worker() {
    stops_at(Wire { payload: Some(Vec::new()), ..Wire::default() }, &["reason decode"]);
}

#[test]
fn con_11_a_tombstone_stops_the_worker() {
    stops_at(Wire { key: Some(b"A1".to_vec()), payload: None, ..Wire::default() }, &["reason tombstone"]);
}

#[test]
fn con_11_a_tombstone_without_a_key_stops_the_worker() {
    stops_at(Wire::default(), &["reason tombstone"]);
}

#[test]
fn sch_01_an_unknown_enum_value_stops_the_worker() {
    // The value itself may be a secret and is not shown.
    stops_at(json(0, &json!({ "order_id": 5, "op": "cancel" })), &["reason decode", "expected `charge` or `refund`"]);
}

#[test]
fn sch_01_a_missing_field_stops_the_worker() {
    stops_at(json(0, &json!({ "order_id": 5 })), &["reason key_missing", "op"]);
}

#[test]
fn sch_02_a_frame_of_a_schema_registry_is_named() {
    let framed = [b"\0\0\0\0\x07".as_slice(), br#"{"order_id":5,"op":"charge"}"#].concat();
    stops_at(Wire { payload: Some(framed), ..Wire::default() }, &["reason decode", "schema registry", "id 7"]);
}

#[test]
fn err_01_a_handler_that_fails_for_ever_stops_the_worker() {
    stops_at(doing(0, 5, "fail"), &["reason exhausted", "3 attempt(s)", "the handler says no"]);
}

#[test]
fn err_01_a_terminal_error_stops_the_worker_at_once() {
    stops_at(doing(0, 5, "terminal"), &["reason terminal", "no retry can help"]);
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

#[test]
fn sch_01_an_event_no_job_takes_stops_the_worker() {
    let world = World::embedded(ORDERS);
    let event = |id, event: &str| Wire { headers: vec![("event".into(), event.into())], ..order(0, id) };
    world.put(&[event(1, "charged"), event(2, "shipped")]);
    let error = world.work(["on_charged"]).fails();
    words(&error, &["partition 0, offset 1", "reason unknown_event", "`shipped`"]);
    assert_eq!(world.database.ids("on_charged"), [1]);
    // Another job of the topic takes every event.
    let worker = world.work(["on_charged", "charge"]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("charge"), [2], "the first message was settled before this job came");
    assert_eq!(world.database.ids("on_charged"), [1]);
}
