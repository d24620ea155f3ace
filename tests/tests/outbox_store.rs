//! The outbox's contract on SQLite, and the relay on SQLite and the embedded broker.

mod outbox_contract;

use std::time::{Duration, Instant};

use idempotent_jobs::prelude::*;
use idempotent_jobs::{Producer, Relay, Worker, embedded};
use outbox_contract::{Bed, New, row};
use tests::database::{Database, Kind, effect_sqlite};
use tests::{PATIENCE, outbox, wait_for};
use tokio::sync::oneshot;

outbox_contract!(Kind::Sqlite);

/// The whole way, at most once delayed by the fallback poll.
#[test]
fn a_relay_sends_from_sqlite_to_the_embedded_broker() {
    let bed = Bed::new(Kind::Sqlite);
    let broker = embedded::Broker::start(&[("a", 2), ("b", 2)]).expect("the embedded broker starts");
    for n in 0..200 {
        bed.put(New { lane: Some(["x", "y", "z"][usize::try_from(n % 3).expect("small")]), ..row(n) });
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = Relay::builder()
        .database_url(bed.database.url())
        .brokers(broker.bootstrap_servers())
        .shutdown_on(async { drop(stopped.await) });
    let running = std::thread::spawn(move || wait_for(relay.run()));
    await_empty(&bed);
    bed.put(New { topic: "b", ..row(1_000) });
    await_empty(&bed);
    drop(stop);
    running.join().expect("it ends").expect("it ends well");
    assert_eq!(bed.count("relays", ""), 0);
    assert_eq!(bed.count("shards", "WHERE owner IS NOT NULL"), 0);

    let found = outbox::read(broker.bootstrap_servers(), "a", &[0, 0], &ends(&broker, "a"));
    assert_eq!(found.len(), 200);
    for lane in ["x", "y", "z"] {
        let of: Vec<&str> = found.iter().filter(|f| f.key.as_deref() == Some(lane)).map(|f| &*f.dedup).collect();
        let number = |key: &&str| key.trim_matches(['[', ']']).parse::<i64>().expect("a number");
        assert!(of.is_sorted_by_key(number), "{of:?}");
    }
    assert!(found.iter().all(|record| record.payload.is_none()), "they are tombstones");
}

#[derive(serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "relay-first", key = "id")]
struct First {
    id: i64,
}

#[derive(serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "relay-second", key = "id")]
struct Second {
    id: i64,
}

#[idempotent_job]
async fn relay_first(tx: &mut SqliteTx, job: First) -> JobResult {
    tx.enqueue(&Second { id: job.id }).await?;
    Ok(())
}

#[idempotent_job]
async fn relay_second(tx: &mut SqliteTx, job: Second, meta: Meta) -> JobResult {
    effect_sqlite(tx, "relay_second", job.id, &meta).await?;
    Ok(())
}

/// The worker's own relay, with properties of consumers on the way.
#[test]
fn a_worker_sends_what_its_jobs_enqueue() {
    let database = Database::new(Kind::Sqlite);
    let broker =
        embedded::Broker::start(&[("relay-first", 2), ("relay-second", 2)]).expect("the embedded broker starts");
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::builder()
        .database_url(database.url())
        .brokers(broker.bootstrap_servers())
        .group_id("relayed")
        .property("group.protocol", "consumer")
        .property("fetch.wait.max.ms", "50")
        .jobs(["relay_first", "relay_second"])
        .shutdown_on(async { drop(stopped.await) });
    let running = std::thread::spawn(move || wait_for(worker.run()));
    wait_for(async {
        let producer = Producer::builder().brokers(broker.bootstrap_servers()).build().expect("a producer");
        for id in [1, 2, 3, 1] {
            producer.send(&First { id }).await.expect("it is delivered");
        }
    });
    let deadline = Instant::now() + PATIENCE;
    while database.ids("relay_second").len() < 3 {
        assert!(Instant::now() < deadline, "{:?}", database.effects());
        std::thread::yield_now();
    }
    drop(stop);
    running.join().expect("it ends").expect("it ends well");
    let mut ids = database.ids("relay_second");
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(database.number("SELECT count(*) FROM idempotent_jobs_relays"), 0, "the relay said that it ends");
    assert_eq!(database.number("SELECT count(*) FROM idempotent_jobs_outbox"), 0);
}

#[test]
fn a_relay_that_cannot_start_says_all_that_is_wrong() {
    let error = wait_for(Relay::builder().database_url("mysql://x").run()).expect_err("nothing is right");
    let text = error.to_string();
    assert!(text.contains("no kind this build knows") && text.contains("no Kafka brokers"), "{text}");
    let error = wait_for(Relay::builder().brokers("127.0.0.1:1").run()).expect_err("there is no database");
    assert!(error.to_string().contains("DATABASE_URL"), "{error}");
}

fn await_empty(bed: &Bed) {
    let deadline = Instant::now() + PATIENCE;
    while bed.count("outbox", "") > 0 {
        assert!(Instant::now() < deadline, "{} rows stay", bed.count("outbox", ""));
        std::thread::yield_now();
    }
}

fn ends(broker: &embedded::Broker, topic: &str) -> Vec<i64> {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    let consumer: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap_servers())
        .create()
        .expect("a consumer can be made");
    let end = |partition| consumer.fetch_watermarks(topic, partition, Duration::from_secs(10));
    (0..2).map(|partition| end(partition).expect("the broker answers").1).collect()
}
