//! From the answer to COMMIT until a consumer has the record, one at a time.
//!
//! That is a little longer than to the broker's acknowledgement, which only the relay hears.

use std::time::{Duration, Instant};

use idempotent_jobs::outbox;
use rdkafka::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::{Offset, TopicPartitionList};
use sqlx::Connection;
use tokio::time::{sleep, timeout};

use super::measured;
use super::record::placed;
use crate::Failure;
use crate::child;
use crate::kafka::{Kafka, PARTITIONS};
use crate::load::Load;
use crate::postgres::Postgres;

const TOPIC: &str = "bench-relay";
/// A relay that has nothing to do is what is measured.
const IDLE: Duration = Duration::from_millis(30);
const ANSWER: Duration = Duration::from_secs(30);

/// Median and 99th percentile, in milliseconds.
pub async fn measure(kafka: &Kafka, postgres: &Postgres, records: u64) -> Result<(f64, f64), Failure> {
    kafka.make(Load { topic: TOPIC, messages: records }).await?;
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &kafka.brokers)
        .set("group.id", "bench-latency")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "100")
        .create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(TOPIC, partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let mut relay = child::start(&["relay"], &measured(kafka, postgres, TOPIC, 0))?;
    let times = times(&consumer, postgres, records).await;
    drop(relay.stdin.take());
    let ended = relay.wait()?;
    let mut times = times?;
    if !ended.success() {
        return Err(format!("the relay ended with {ended}").into());
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}

async fn times(consumer: &StreamConsumer, postgres: &Postgres, records: u64) -> Result<Vec<f64>, Failure> {
    let mut conn = postgres.connect().await?;
    let mut times = Vec::new();
    // The first ones find a relay that is still starting.
    for n in 0..records + 10 {
        let mut tx = conn.begin().await?;
        outbox::enqueue(&mut *tx, &placed(n)).await?;
        tx.commit().await?;
        let committed = Instant::now();
        timeout(ANSWER, consumer.recv()).await??;
        if n >= 10 {
            times.push(committed.elapsed().as_secs_f64() * 1000.0);
        }
        sleep(IDLE).await;
    }
    Ok(times)
}
