use std::time::Duration;

use idempotent_jobs::__private::kafka::{SendErrorKind, Stopped};

use crate::recorder::{Recorder, embedded};

const BUDGET: Duration = Duration::from_secs(5);

/// 12 MiB through a partition that keeps 5: the sender waits for the reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_broker_is_not_outrun_by_more_than_it_keeps() {
    let place = embedded(1);
    let paced = place.broker().producer(place.member().group_id().unwrap()).unwrap();
    let total = 240;
    let template = place.record("k", &"x".repeat(50_000));
    let sending = tokio::spawn(async move {
        for _ in 0..total {
            paced.send_record(template.clone()).await.unwrap();
        }
    });
    let recorder = Recorder::prompt();
    let consumer = place.join(&place.member(), &recorder);
    sending.await.unwrap();
    recorder.wait("everything", |log| log.handled.len() == total || !log.failed.is_empty());
    recorder.read(|log| {
        assert!(log.failed.is_empty(), "{:?}", log.failed);
        let offsets: Vec<i64> = log.handled.iter().map(|(_, offset)| *offset).collect();
        assert_eq!(offsets, (0..240).collect::<Vec<i64>>(), "nothing was forgotten");
    });
    assert_eq!(consumer.stop(BUDGET).await, Stopped::Clean);
}

#[tokio::test]
async fn a_sender_waits_while_nobody_reads() {
    let place = embedded(1);
    let paced = place.broker().producer(place.member().group_id().unwrap()).unwrap();
    let payload = "x".repeat(900_000);
    for _ in 0..4 {
        paced.send_record(place.record("k", &payload)).await.unwrap();
    }
    let fifth = tokio::time::timeout(Duration::from_millis(500), paced.send_record(place.record("k", &payload))).await;
    assert!(fifth.is_err(), "the fifth must wait");
}

#[tokio::test]
async fn a_record_that_cannot_be_kept_is_refused() {
    let place = embedded(1);
    let paced = place.broker().producer(place.member().group_id().unwrap()).unwrap();
    let error = paced.send_record(place.record("k", &"x".repeat(5 << 20))).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::TooLarge);
    assert!(error.to_string().contains("real Kafka"), "{error}");
}
