use std::time::{Duration, Instant};

use idempotent_jobs::__private::kafka::{Producer, Properties, Settings, Stopped};

use crate::recorder::{Recorder, embedded, place};

const BUDGET: Duration = Duration::from_secs(2);

#[tokio::test]
async fn shut_02_stop_settles_commits_and_leaves() {
    let place = place(4).await;
    let producer = place.producer();
    let properties = place.member();
    let recorder = Recorder::prompt();
    let consumer = place.join(&properties, &recorder);
    place.send(&producer, 0, 40).await;
    recorder.wait("all", |log| log.handled.len() == 40);
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    recorder.read(|log| assert_eq!((log.revocations, log.losses), (1, 0)));
    assert_eq!(place.offsets(&properties, 4).values().sum::<i64>(), 40);
}

#[tokio::test]
async fn shut_02_stop_ends_when_no_broker_was_ever_there() {
    let recorder = Recorder::prompt();
    let place = embedded(1);
    let consumer = place.join(&Properties::new("127.0.0.1:1").group("g"), &recorder);
    let began = Instant::now();
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
    assert!(began.elapsed() < BUDGET + Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn shut_02_stop_ends_when_the_broker_died_with_work_to_commit() {
    let place = embedded(2);
    let producer = place.producer();
    let recorder = Recorder::patient(100);
    let consumer = place.join(&place.member(), &recorder);
    place.send(&producer, 0, 10).await;
    recorder.wait("all", |log| log.accepted.len() == 10);
    place.broker().with(|cluster| cluster.broker_down(-1)).unwrap().unwrap();
    recorder.handle(10);
    let began = Instant::now();
    let _ = consumer.stop(BUDGET).await;
    assert!(began.elapsed() < BUDGET + Duration::from_secs(12), "{:?}", began.elapsed());
    recorder.read(|log| assert!(log.failed.is_empty(), "an outage is not a failure: {:?}", log.failed));
}

#[tokio::test]
async fn shut_02_a_budget_without_end_is_one() {
    let place = embedded(1);
    let producer = Producer::builder().brokers(&place.servers).queue_timeout(Duration::MAX).build().unwrap();
    producer.send_record(place.record("k", "{}")).await.unwrap();
    assert_eq!(producer.close(Duration::MAX).await, Ok(()));
    let recorder = Recorder::prompt();
    let mut settings = Settings::default();
    settings.revoke_budget = Duration::MAX;
    let consumer = place.join_with(settings, &place.member(), &recorder);
    recorder.wait("the message", |log| log.handled.len() == 1);
    assert_eq!(consumer.stop(Duration::MAX).await, Stopped::Clean);
    recorder.read(|log| assert!(log.failed.is_empty(), "{:?}", log.failed));
}

#[tokio::test]
async fn shut_02_stop_ends_before_the_group_was_joined() {
    let place = embedded(1);
    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    assert_eq!(consumer.stop(Duration::ZERO).await, Stopped::Clean);
}

#[tokio::test]
async fn shut_02_dropping_the_handle_waits_for_nothing_and_leaves_the_group() {
    let place = place(1).await;
    let properties = place.modern_member();
    let recorder = Recorder::prompt();
    let consumer = place.join(&properties, &recorder);
    recorder.wait("the partition", |log| log.assignments == 1);
    let began = Instant::now();
    drop(consumer);
    assert!(began.elapsed() < Duration::from_millis(100));
    recorder.wait("the revoke", |log| log.revocations == 1);
    // Another member has the partition long before a session could time out.
    let next = Recorder::prompt();
    let consumer = place.join(&properties, &next);
    next.wait("the partition", |log| log.assignments == 1);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    consumer.stop(BUDGET).await;
}
