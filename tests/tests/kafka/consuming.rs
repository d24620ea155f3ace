use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use idempotent_jobs::__private::kafka::{Consumer, OnGap, Properties, Record, Settings, Stopped};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::recorder::{Log, Place, Recorder, embedded, place};

const BUDGET: Duration = Duration::from_secs(5);

#[tokio::test]
async fn con_11_tombstones_null_keys_and_headers_are_kept_as_they_are() {
    let place = place(1).await;
    let producer = place.producer();
    let headers = vec![
        ("a".to_owned(), Some(b"1".to_vec())),
        ("b".to_owned(), None),
        ("a".to_owned(), Some(vec![0xff, 0xfe])),
        ("c".to_owned(), Some(Vec::new())),
    ];
    let bare = Record { topic: place.topic.clone(), ..Record::default() };
    let empty = Record { key: Some(Vec::new()), payload: Some(Vec::new()), headers: headers.clone(), ..bare.clone() };
    producer.send_record(bare).await.unwrap();
    producer.send_record(empty).await.unwrap();

    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    recorder.wait("both", |log| log.accepted.len() == 2);
    recorder.read(|log| {
        let (null, empty) = (&log.accepted[0], &log.accepted[1]);
        assert_eq!((&null.key, &null.payload, null.headers.iter().count()), (&None, &None, 0));
        assert_eq!((empty.key.as_deref(), empty.payload.as_deref()), (Some(&[][..]), Some(&[][..])));
        let read: Vec<_> =
            empty.headers.iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect();
        assert_eq!(read, headers);
        assert!(empty.timestamp.is_some());
    });
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

#[tokio::test]
async fn con_21_a_full_partition_is_paused_and_goes_on_when_there_is_room() {
    let place = place(2).await;
    let producer = place.producer();
    place.send(&producer, 0, 400).await;
    let recorder = Recorder::patient(20);
    let consumer = place.join(&place.member(), &recorder);
    recorder.wait("both full", |log| log.lanes.len() == 2 && log.lanes.values().all(|lane| lane.queue.len() >= 20));
    // librdkafka's burst may still arrive; then nothing more does.
    while recorder.read(|log| log.handled.len()) < 400 {
        recorder.wait("more", |log| log.handled.len() == 400 || log.lanes.values().any(|lane| !lane.queue.is_empty()));
        recorder.handle(5);
    }
    recorder.read(|log| {
        assert_eq!(log.accepted.len(), 400);
        assert!(log.fulls > 0);
        let mut distinct = log.handled.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 400, "nothing twice without a rebalance");
    });
    consumer.stop(BUDGET).await;
}

#[tokio::test]
async fn con_01_only_what_is_settled_is_committed() {
    let place = place(1).await;
    let producer = place.producer();
    place.send(&producer, 0, 10).await;
    let recorder = Recorder::patient(100);
    let properties = place.member();
    let consumer = place.join(&properties, &recorder);
    recorder.wait("all", |log| log.accepted.len() == 10);
    recorder.handle(5);
    recorder.wait("a commit", |log| !log.committed.is_empty());
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    assert_eq!(place.offsets(&properties, 1)[&0], 5);
}

#[tokio::test]
async fn con_23_commits_are_made_together() {
    let place = place(1).await;
    let producer = place.producer();
    place.send(&producer, 0, 3_000).await;
    let recorder = Recorder::prompt();
    let properties = place.member();
    let consumer = place.join(&properties, &recorder);
    recorder.wait("all", |log| log.accepted.len() == 3_000);
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    assert_eq!(place.offsets(&properties, 1)[&0], 3_000, "the last one is made at the stop");
    let commits = recorder.read(|log| log.committed.len());
    assert!(commits <= 100, "{commits} commits of one partition, each settled message being reported at once");
}

#[tokio::test]
async fn con_04_a_new_group_begins_at_the_beginning() {
    let place = place(3).await;
    let producer = place.producer();
    place.send(&producer, 0, 15).await;
    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    recorder.wait("what was there before", |log| log.accepted.len() == 15);
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

#[tokio::test]
async fn con_14_a_commit_of_an_old_generation_is_dropped_and_the_next_one_succeeds() {
    commit_after(&[
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
    ])
    .await;
}

#[tokio::test]
async fn con_22_a_commit_that_fails_is_seen_and_made_again() {
    commit_after(&[
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
    ])
    .await;
}

async fn commit_after(errors: &'static [RDKafkaRespErr]) {
    let place = embedded(1);
    let producer = place.producer();
    let recorder = Recorder::prompt();
    let properties = place.member();
    let consumer = place.join(&properties, &recorder);
    place.broker().with(move |cluster| cluster.request_errors(RDKafkaApiKey::OffsetCommit, errors)).unwrap();
    place.send(&producer, 0, 10).await;
    recorder.wait("a commit", |log| log.committed.iter().any(|position| position.offset == 10));
    recorder.read(|log| assert!(log.failed.is_empty(), "{:?}", log.failed));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    assert_eq!(place.offsets(&properties, 1)[&0], 10);
}

#[tokio::test]
async fn messages_deleted_before_they_were_read_stop_the_worker_with_their_numbers() {
    let place = embedded(1);
    let producer = place.producer();
    let properties = place.member();
    place.send(&producer, 0, 3).await;
    let first = Recorder::prompt();
    let consumer = place.join(&properties, &first);
    first.wait("a commit", |log| log.committed.iter().any(|position| position.offset == 3));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);

    // The broker keeps 5 MiB.
    let large = "x".repeat(900_000);
    for _ in 0..12 {
        producer.send_record(place.record("k", &large)).await.unwrap();
    }
    let second = Recorder::prompt();
    let consumer = place.join(&properties, &second);
    second.wait("the failure", |log| !log.failed.is_empty());
    second.read(|log| {
        assert!(log.accepted.is_empty(), "nothing behind the hole is accepted");
        let text = &log.failed[0];
        for word in ["orders", "partition 0", "next offset 3", "the log starts at", "deleted before they were read"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    });
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    assert_eq!(place.offsets(&properties, 1)[&0], 3);

    let third = Recorder::prompt();
    let mut settings = Settings::default();
    settings.on_gap = OnGap::Report;
    let consumer = Consumer::start_with(settings, &properties, &["orders".to_owned()], third.clone()).unwrap();
    third.wait("what is left", |log| log.accepted.last().is_some_and(|message| message.coordinates.offset == 14));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

/// librdkafka itself only logs it.
#[tokio::test]
async fn messages_deleted_while_the_reader_lags_stop_the_worker_too() {
    let place = embedded(1);
    let producer = place.producer();
    let recorder = Recorder::patient(1);
    let consumer = place.join(&place.member(), &recorder);
    place.send(&producer, 0, 1).await;
    recorder.wait("the first, and with it a pause", |log| log.fulls == 1);
    let large = "x".repeat(900_000);
    for _ in 0..12 {
        producer.send_record(place.record("k", &large)).await.unwrap();
    }
    while recorder.read(|log| log.failed.is_empty()) {
        recorder.handle(1);
        recorder
            .wait("the next", |log| !log.failed.is_empty() || log.lanes.values().any(|lane| !lane.queue.is_empty()));
    }
    recorder.read(|log| assert!(log.failed[0].contains("deleted before they were read"), "{:?}", log.failed));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

/// librdkafka may go on behind such a record; nothing behind it may be accepted or committed.
#[tokio::test]
async fn a_record_that_cannot_be_read_stops_the_worker() {
    let place = embedded(1);
    let producer = place.producer();
    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    place.send(&producer, 0, 3).await;
    recorder.wait("the messages", |log| log.handled.len() == 3);
    // More than one: a fetch that asks for nothing just then would swallow it.
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_MSG; 20];
    place.broker().with(move |cluster| cluster.request_errors(RDKafkaApiKey::Fetch, &errors)).unwrap();
    recorder.wait("the failure", |log| !log.failed.is_empty());
    place.send(&producer, 3, 6).await;
    recorder.wait_for_polls();
    recorder.read(|log| {
        assert!(log.failed[0].contains("damaged") && log.failed[0].contains("orders/0 next 3"), "{:?}", log.failed);
        assert_eq!(log.accepted.len(), 3);
    });
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    assert_eq!(place.offsets(&place.member(), 1)[&0], 3);
}

#[tokio::test]
async fn a_topic_that_is_missing_fails_with_advice() {
    let place = embedded(1);
    let recorder = Recorder::prompt();
    let properties = place.member().set("topic.metadata.propagation.max.ms", "0");
    let mut settings = Settings::default();
    settings.missing_budget = Duration::from_secs(2);
    let began = Instant::now();
    let consumer = Consumer::start_with(settings, &properties, &["nowhere".to_owned()], recorder.clone()).unwrap();
    recorder.wait("the failure", |log| !log.failed.is_empty());
    assert!(began.elapsed() > Duration::from_secs(2), "brokers that restart say the same for a while");
    recorder.read(|log| {
        assert!(log.failed[0].contains("nowhere") && log.failed[0].contains("create the topic"), "{:?}", log.failed)
    });
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

/// A partition that cannot be looked at holds up itself, and no other: the brokers answer so for
/// a moment when they restart.
#[tokio::test]
async fn a_partition_that_is_unknown_for_a_moment_holds_up_no_other() {
    let place = embedded(3);
    let producer = place.producer();
    let properties = read_and_unknown(&place, 2).await;
    place.send(&producer, 60, 120).await;
    let recorder = Recorder::prompt();
    let consumer = place.join(&properties, &recorder);
    let others = |log: &Log| log.handled.iter().filter(|(partition, _)| partition.number > 0).count();
    let first = |log: &Log| log.handled.iter().filter(|(partition, _)| partition.number == 0).count();
    recorder.wait("the others", |log| others(log) > 0);
    assert_eq!(recorder.read(|log| first(log)), 0);
    recorder.wait("all", |log| first(log) > 0 && first(log) + others(log) == 60);
    recorder.read(|log| assert!(log.failed.is_empty(), "{:?}", log.failed));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

#[tokio::test]
async fn a_partition_that_stays_unknown_stops_the_worker_with_its_name() {
    let place = embedded(1);
    let properties = read_and_unknown(&place, 20).await;
    let recorder = Recorder::prompt();
    let mut settings = Settings::default();
    settings.missing_budget = Duration::from_millis(500);
    let consumer = place.join_with(settings, &properties, &recorder);
    recorder.wait("the failure", |log| !log.failed.is_empty());
    recorder.read(|log| assert!(log.failed[0].contains("topic orders, partition 0"), "{:?}", log.failed));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

/// The group has read 60 messages; the next looks at the log's ends find a partition unknown.
async fn read_and_unknown(place: &Place, times: usize) -> Properties {
    let properties = place.member();
    place.send(&place.producer(), 0, 60).await;
    let recorder = Recorder::prompt();
    let consumer = place.join(&properties, &recorder);
    recorder.wait("everything", |log| log.handled.len() == 60);
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    let errors = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART; times];
    place.broker().with(move |cluster| cluster.request_errors(RDKafkaApiKey::ListOffsets, &errors)).unwrap();
    properties
}

/// Only a broker that has a minimum can tell.
#[tokio::test]
async fn a_session_timeout_below_the_brokers_minimum_fails_with_advice() {
    let place = place(1).await;
    if !place.is_real() {
        return;
    }
    let recorder = Recorder::prompt();
    let consumer =
        place.join(&place.member().set("session.timeout.ms", "1000").set("heartbeat.interval.ms", "300"), &recorder);
    recorder.wait("the failure", |log| !log.failed.is_empty());
    recorder.read(|log| assert!(log.failed[0].contains("group.min.session.timeout.ms"), "{:?}", log.failed));
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

/// Any producer can send such a name; it must not end the thread.
#[tokio::test]
async fn a_header_name_that_is_not_utf_8_is_read() {
    let place = place(1).await;
    let client: rdkafka::producer::BaseProducer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &place.servers).create().unwrap();
    produce_with_header(&client, &place.topic, c"\xff", b"v");
    rdkafka::producer::Producer::flush(&client, BUDGET).unwrap();
    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    recorder.wait("the message", |log| log.accepted.len() == 1);
    recorder.read(|log| assert_eq!(log.accepted[0].headers.get("\u{fffd}"), Some(&b"v"[..])));
    consumer.stop(BUDGET).await;
}

/// `rdkafka` takes names that are UTF-8 only; librdkafka takes any.
fn produce_with_header(client: &rdkafka::producer::BaseProducer, topic: &str, name: &CStr, value: &[u8]) {
    use rdkafka::bindings::{rd_kafka_producev, rd_kafka_vtype_t as vtype};
    let topic = CString::new(topic).unwrap();
    let client = rdkafka::producer::Producer::client(client).native_ptr();
    // SAFETY: each tag is followed by what librdkafka's documentation says it takes; all of it is copied.
    let answer = unsafe {
        rd_kafka_producev(
            client,
            vtype::RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            vtype::RD_KAFKA_VTYPE_HEADER,
            name.as_ptr(),
            value.as_ptr(),
            value.len().cast_signed(),
            vtype::RD_KAFKA_VTYPE_END,
        )
    };
    assert_eq!(answer, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
}
