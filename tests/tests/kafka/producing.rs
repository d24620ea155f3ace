use std::time::{Duration, Instant};

use idempotent_jobs::__private::kafka::{Producer, SendErrorKind, Undelivered, embedded::Broker};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::recorder::{broker, producer, record};

const BUDGET: Duration = Duration::from_secs(10);

fn slow(broker: &Broker, millis: u64) {
    broker.with(move |cluster| cluster.broker_round_trip_time(-1, Duration::from_millis(millis))).unwrap().unwrap();
}

#[tokio::test]
async fn a_send_returns_where_the_record_lies() {
    let broker = broker(1);
    let producer = producer(broker.bootstrap_servers());
    for offset in 0..3 {
        let delivery = producer.send_record(record("k", "{}")).await.unwrap();
        assert_eq!((delivery.partition, delivery.offset), (0, offset));
    }
    assert_eq!(producer.close(BUDGET).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prod_03_a_full_queue_is_waited_for_and_nothing_is_dropped() {
    let broker = broker(4);
    let producer = Producer::builder().brokers(broker.bootstrap_servers()).property("queue.buffering.max.messages", "50").build().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20 {
        let producer = producer.clone();
        tasks.spawn(async move {
            for number in 0..1000 {
                producer.send_record(record(&format!("{task}/{number}"), "{}")).await.unwrap();
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
    let broker = broker(1);
    let producer = Producer::builder()
        .brokers(broker.bootstrap_servers())
        .property("queue.buffering.max.messages", "1")
        .queue_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    producer.send_record(record("warm", "{}")).await.unwrap();
    slow(&broker, 3_000);
    let first = tokio::spawn({
        let producer = producer.clone();
        async move { producer.send_record(record("first", "{}")).await }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    let error = producer.send_record(record("second", "secret payload")).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_delivered()), (SendErrorKind::QueueFull, false));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!error.to_string().contains("secret"), "{error}");
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn prod_05_a_send_without_an_answer_may_have_been_delivered() {
    let broker = broker(1);
    let producer = Producer::builder().brokers(broker.bootstrap_servers()).delivery_timeout(Duration::from_millis(1_500)).build().unwrap();
    producer.send_record(record("warm", "{}")).await.unwrap();
    slow(&broker, 10_000);
    let error = producer.send_record(record("k", "{}")).await.unwrap_err();
    assert!(error.maybe_delivered(), "{error}");
    assert_eq!(error.topic(), "orders");
    assert!(error.to_string().contains("may have been delivered"), "{error}");
}

#[tokio::test]
async fn prod_05_a_send_that_never_left_was_not_delivered() {
    let producer = Producer::builder().brokers("127.0.0.1:1").delivery_timeout(Duration::from_millis(500)).build().unwrap();
    let error = producer.send_record(record("k", "{}")).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_delivered()), (SendErrorKind::NotSent, false), "{error}");
}

#[tokio::test]
async fn prod_05_what_the_broker_refuses_is_not_in_the_log() {
    let broker = broker(1);
    let producer = producer(broker.bootstrap_servers());
    producer.send_record(record("warm", "{}")).await.unwrap();
    let errors = &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
    broker.with(|cluster| cluster.request_errors(RDKafkaApiKey::Produce, errors)).unwrap();
    let error = producer.send_record(record("k", "{}")).await.unwrap_err();
    assert!(!error.maybe_delivered(), "{error}");
    let large = record("k", &"x".repeat(2_000_000));
    assert_eq!(producer.send_record(large).await.unwrap_err().kind(), SendErrorKind::TooLarge);
}

#[tokio::test]
async fn prod_02_close_counts_what_is_not_confirmed() {
    let producer = Producer::builder().brokers("127.0.0.1:1").build().unwrap();
    let mut sends = Vec::new();
    for number in 0..3 {
        let producer = producer.clone();
        sends.push(tokio::spawn(async move { producer.send_record(record(&number.to_string(), "{}")).await }));
    }
    tokio::task::yield_now().await;
    assert_eq!(producer.flush(Duration::from_millis(200)).await, Err(Undelivered { records: 3 }));
    sends.iter().for_each(tokio::task::JoinHandle::abort);
}
