use super::*;
use crate::context::Context;
use crate::context::Handle;
use crate::job::{Declaration, Running};
use crate::message::{Coordinates, Headers};

struct NoTx;

impl Handle for NoTx {
    const NAME: &'static str = "NoTx";
    const DATABASE: &'static str = "none";
}

fn entry<'a>(_: &'a mut NoTx, (): (), _: &'a Context) -> Running<'a> {
    unreachable!("no message is run here")
}

fn spec(name: &'static str, topic: &'static str, change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = Declaration::new(name, topic, entry).erase().spec().clone();
    change(&mut spec);
    spec
}

fn message(topic: &str, offset: i64, key: Option<&str>, event: Option<&str>) -> Message {
    let event = event.map(|event| (EVENT_HEADER.to_owned(), Some(event.as_bytes().to_vec())));
    Message {
        coordinates: Coordinates { topic: topic.into(), partition: 0, offset },
        key: key.map(|key| key.as_bytes().to_vec()),
        payload: None,
        headers: Headers::new(event.into_iter().collect()),
        timestamp: None,
    }
}

fn lanes(ordering: Ordering) -> impl Fn(i64, Option<&str>) -> u64 {
    let classes = Classes::new(&[&spec("charge", "orders", |spec| spec.ordering = ordering)]);
    move |offset, key| classes.place(&message("orders", offset, key, None)).expect("a job reads the topic").lane
}

#[test]
fn by_key_messages_of_a_key_share_a_lane_and_one_without_a_key_has_its_own() {
    let lane = lanes(Ordering::Key);
    assert_eq!(lane(0, Some("a")), lane(1, Some("a")));
    assert_ne!(lane(0, Some("a")), lane(1, Some("b")));
    assert_ne!(lane(0, None), lane(1, None));
    assert_eq!(lane(0, Some("")), lane(1, Some("")), "an empty key is a key");
}

#[test]
fn by_partition_all_share_a_lane_and_by_none_each_has_its_own() {
    let lane = lanes(Ordering::Partition);
    assert_eq!(lane(0, Some("a")), lane(1, None));
    let lane = lanes(Ordering::None);
    assert_ne!(lane(0, Some("a")), lane(1, Some("a")));
}

#[test]
fn a_message_is_for_the_jobs_of_its_event_and_for_those_that_take_all() {
    let specs = [
        spec("paid", "orders", |spec| spec.event = Some("paid")),
        spec("all", "orders", |_| {}),
        spec("sent", "orders", |spec| spec.event = Some("sent")),
        spec("only", "refunds", |spec| spec.event = Some("paid")),
    ];
    let classes = Classes::new(&specs.iter().collect::<Vec<_>>());
    let jobs = |topic, event| classes.class(classes.place(&message(topic, 0, None, event)).unwrap().class).jobs.clone();
    assert_eq!(jobs("orders", Some("paid")), [0, 1]);
    assert_eq!(jobs("orders", Some("sent")), [1, 2]);
    assert_eq!(jobs("orders", Some("other")), [1]);
    assert_eq!(jobs("orders", None), [1]);
    assert_eq!(jobs("refunds", Some("sent")), [0usize; 0], "an unknown event has no job");
    assert_eq!(classes.place(&message("payments", 0, None, None)), None);
}

#[test]
fn jobs_of_one_topic_share_the_strictest_order() {
    let specs = [
        spec("a", "orders", |spec| spec.ordering = Ordering::None),
        spec("b", "orders", |spec| spec.ordering = Ordering::Partition),
    ];
    let classes = Classes::new(&specs.iter().collect::<Vec<_>>());
    let place = |offset| classes.place(&message("orders", offset, None, None)).unwrap();
    assert_eq!(place(0), place(1));
}
