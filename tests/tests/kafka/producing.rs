use std::time::{Duration, Instant};

use idempotent_jobs::__private::Part;
use idempotent_jobs::__private::kafka::{Producer, SendErrorKind};
use idempotent_jobs::{JobMessage, KeyValue};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::recorder::{Place, Recorder, embedded, place};

const BUDGET: Duration = Duration::from_secs(10);

fn slow(place: &Place, millis: u64) {
    place
        .broker()
        .with(move |cluster| cluster.broker_round_trip_time(-1, Duration::from_millis(millis)))
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_send_returns_where_the_record_lies() {
    let place = embedded(1);
    let producer = place.producer();
    for offset in 0..3 {
        let delivery = producer.send_record(place.record("k", "{}")).await.unwrap();
        assert_eq!((delivery.partition, delivery.offset), (0, offset));
    }
    assert_eq!(producer.close(BUDGET).await, Ok(()));
}

/// The hashes are those of Kafka's own tests of `Utils.murmur2`.
#[tokio::test]
async fn keys_lie_where_kafkas_own_clients_put_them() {
    let place = embedded(12);
    let producer = place.producer();
    for (key, hash) in [("21", -973_932_308), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)] {
        let delivery = producer.send_record(place.record(key, "{}")).await.unwrap();
        assert_eq!(delivery.partition, (hash & i32::MAX) % 12, "{key}");
    }
}

#[derive(serde::Serialize)]
struct Charge {
    order_id: u64,
}

impl JobMessage for Charge {
    const TOPIC: &'static str = "orders";
    const EVENT: Option<&'static str> = Some("charge");

    fn key_parts() -> Vec<Part<Self>> {
        vec![Part::field("order_id", |charge: &Self| &charge.order_id)]
    }

    fn partition_by(&self) -> Option<KeyValue<'_>> {
        (self.order_id != 7).then(|| KeyValue::Uint(self.order_id.into()))
    }
}

#[tokio::test]
async fn prod_01_the_key_of_a_message_travels_in_its_headers() {
    let place = embedded(1);
    let producer = place.producer();
    producer.send(&Charge { order_id: 42 }).await.unwrap();
    producer.send(&Charge { order_id: 7 }).await.unwrap();
    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    recorder.wait("both", |log| log.accepted.len() == 2);
    recorder.read(|log| {
        let (first, second) = (&log.accepted[0], &log.accepted[1]);
        let headers: Vec<_> = first.headers.iter().collect();
        let wanted: [(&str, Option<&[u8]>); 3] = [
            ("idempotency-key", Some(b"[42]")),
            ("idempotency-key-parts", Some(b"order_id")),
            ("event", Some(b"charge")),
        ];
        assert_eq!(headers, wanted);
        assert_eq!(
            (first.key.as_deref(), first.payload.as_deref()),
            (Some(&b"42"[..]), Some(&br#"{"order_id":42}"#[..]))
        );
        assert_eq!(second.key.as_deref(), Some(&b"[7]"[..]), "without `partition_by` the key's own form");
    });
    consumer.stop(BUDGET).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prod_03_a_full_queue_is_waited_for_and_nothing_is_dropped() {
    let place = place(4).await;
    let producer =
        Producer::builder().brokers(&place.servers).property("queue.buffering.max.messages", "50").build().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20 {
        let producer = producer.clone();
        let records: Vec<_> = (0..1000).map(|number| place.record(&format!("{task}/{number}"), "{}")).collect();
        tasks.spawn(async move {
            for record in records {
                producer.send_record(record).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(producer.close(BUDGET).await, Ok(()));
}

#[tokio::test]
async fn prod_03_a_queue_that_stays_full_is_a_typed_error_after_the_deadline() {
    let place = embedded(1);
    let producer = Producer::builder()
        .brokers(&place.servers)
        .property("queue.buffering.max.messages", "1")
        .queue_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    producer.send_record(place.record("warm", "{}")).await.unwrap();
    slow(&place, 3_000);
    let first = tokio::spawn({
        let (producer, record) = (producer.clone(), place.record("first", "{}"));
        async move { producer.send_record(record).await }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    let error = producer.send_record(place.record("second", "secret payload")).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_delivered()), (SendErrorKind::QueueFull, false));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!error.to_string().contains("secret"), "{error}");
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn prod_05_a_send_without_an_answer_may_have_been_delivered() {
    let place = embedded(1);
    let producer =
        Producer::builder().brokers(&place.servers).delivery_timeout(Duration::from_millis(1_500)).build().unwrap();
    producer.send_record(place.record("warm", "{}")).await.unwrap();
    slow(&place, 10_000);
    let error = producer.send_record(place.record("k", "{}")).await.unwrap_err();
    assert!(error.maybe_delivered(), "{error}");
    assert_eq!(error.topic(), "orders");
    assert!(error.to_string().contains("may have been delivered"), "{error}");
}

#[tokio::test]
async fn prod_05_a_send_that_never_left_was_not_delivered() {
    let place = embedded(1);
    let producer =
        Producer::builder().brokers("127.0.0.1:1").delivery_timeout(Duration::from_millis(500)).build().unwrap();
    let error = producer.send_record(place.record("k", "{}")).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_delivered()), (SendErrorKind::NotSent, false), "{error}");
}

#[tokio::test]
async fn prod_05_what_the_broker_refuses_is_not_in_the_log() {
    let place = embedded(1);
    let producer = place.producer();
    producer.send_record(place.record("warm", "{}")).await.unwrap();
    let errors = &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
    place.broker().with(|cluster| cluster.request_errors(RDKafkaApiKey::Produce, errors)).unwrap();
    let error = producer.send_record(place.record("k", "{}")).await.unwrap_err();
    assert!(!error.maybe_delivered(), "{error}");
    let large = place.record("k", &"x".repeat(2_000_000));
    assert_eq!(producer.send_record(large).await.unwrap_err().kind(), SendErrorKind::TooLarge);
}

/// librdkafka takes 0 for no end.
#[tokio::test]
async fn a_delivery_timeout_below_a_millisecond_ends_all_the_same() {
    let place = embedded(1);
    let build = |timeout| Producer::builder().brokers("127.0.0.1:1").delivery_timeout(timeout).build();
    let producer = build(Duration::from_micros(1)).unwrap();
    let send = producer.send_record(place.record("k", "{}"));
    assert!(tokio::time::timeout(BUDGET, send).await.expect("it ends").is_err());
    assert!(build(Duration::ZERO).unwrap_err().to_string().contains("delivery timeout"));
    build(Duration::MAX).unwrap();
}

/// A record that was refused counts no more, and who waits hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prod_02_flush_ends_beside_records_that_are_refused() {
    let place = embedded(1);
    let producer = place.producer();
    let large = place.record("k", &"x".repeat(2_000_000));
    let refused = tokio::spawn({
        let producer = producer.clone();
        async move {
            for _ in 0..200 {
                assert_eq!(producer.send_record(large.clone()).await.unwrap_err().kind(), SendErrorKind::TooLarge);
            }
        }
    });
    while !refused.is_finished() {
        assert_eq!(producer.flush(Duration::from_secs(2)).await, Ok(()));
    }
    refused.await.unwrap();
}

#[tokio::test]
async fn prod_02_close_counts_what_is_not_confirmed() {
    let place = embedded(1);
    let producer = Producer::builder().brokers("127.0.0.1:1").build().unwrap();
    let mut sends = Vec::new();
    for number in 0..3 {
        let (producer, record) = (producer.clone(), place.record(&number.to_string(), "{}"));
        sends.push(tokio::spawn(async move { producer.send_record(record).await }));
    }
    tokio::task::yield_now().await;
    assert_eq!(producer.flush(Duration::from_millis(200)).await.unwrap_err().records, 3);
    sends.iter().for_each(tokio::task::JoinHandle::abort);
}
