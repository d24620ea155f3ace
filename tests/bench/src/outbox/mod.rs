//! The outbox: the relay beside a bare producer, `enqueue` beside a plain insert, and how long a
//! record takes from its commit to Kafka.

mod enqueue;
mod latency;
mod producer;
mod record;
mod relay;

use crate::Failure;
use crate::child;
use crate::kafka::Kafka;
use crate::load::Load;
use crate::options::{Contest, Measured};
use crate::postgres::Postgres;
use crate::progress::Told;
use crate::report::Extras;
use crate::results::{Results, Spread};

pub use self::producer::run as produce;
pub use self::relay::run as relay;

/// The lines of the table.
const NAMES: [&str; 5] = ["producer", "relay", "insert", "enqueue", "latency"];

/// The ratios of a time to a time are those of rates the other way round.
pub const RATIOS: [(&str, &str, &str); 2] =
    [("relay_vs_producer", "relay", "producer"), ("enqueue_vs_insert", "insert", "enqueue")];

/// Measures what of the outbox is wanted, each once a round.
pub async fn measure(
    contest: &Contest,
    kafka: &Kafka,
    rounds: u32,
    results: &mut Results,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let is_wanted = |name: &str| contest.only.is_empty() || contest.only.iter().any(|wanted| wanted == name);
    if !NAMES.into_iter().any(is_wanted) {
        return Ok(());
    }
    let postgres = Postgres::create(&contest.postgres, "outbox").await?;
    let records = if contest.quick { 60_000 } else { 200_000 };
    for round in 1..=rounds {
        for name in NAMES.into_iter().take(4).filter(|name| is_wanted(name)) {
            let topic = format!("bench-{name}-{round}");
            let rate = match name {
                "insert" => enqueue::insert(&postgres, records / 10).await?,
                "enqueue" => enqueue::enqueue(&postgres, records / 10).await?,
                "producer" => rate(&produced(kafka, &postgres, topic, records).await?),
                _ => rate(&relayed(kafka, &postgres, topic, records).await?),
            };
            eprintln!("round {round} of {rounds}: {name:<18} {rate:>8.0} a second");
            results.add(name, rate);
        }
    }
    if let Some(Spread { median, .. }) = results.rates("relay").and_then(Spread::of) {
        extras.insert("relay_per_second", median);
    }
    if is_wanted("latency") {
        let (median, p99) = latency::measure(kafka, &postgres, if contest.quick { 100 } else { 300 }).await?;
        eprintln!("latency: median {median:.1} ms, p99 {p99:.1} ms");
        extras.insert("relay_latency_ms_median", median);
        extras.insert("relay_latency_ms_p99", p99);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn rate(told: &Told) -> f64 {
    told.done as f64 / told.seconds
}

async fn produced(kafka: &Kafka, postgres: &Postgres, topic: String, records: u64) -> Result<Told, Failure> {
    let topic: &'static str = topic.leak();
    kafka.make(Load { topic, messages: records }).await?;
    let told = child::run(&["producer"], &measured(kafka, postgres, topic, records))?;
    there(kafka, topic, records)?;
    Ok(told)
}

async fn relayed(kafka: &Kafka, postgres: &Postgres, topic: String, records: u64) -> Result<Told, Failure> {
    let topic: &'static str = topic.leak();
    kafka.make(Load { topic, messages: records }).await?;
    enqueue::fill(postgres, topic, records).await?;
    let told = child::run(&["relay"], &measured(kafka, postgres, topic, records))?;
    there(kafka, topic, records)?;
    Ok(told)
}

fn there(kafka: &Kafka, topic: &str, records: u64) -> Result<(), Failure> {
    let there = kafka.there(topic)?;
    // A relay may send a record twice only when it dies.
    if there == records { Ok(()) } else { Err(format!("{there} records instead of {records} in {topic}").into()) }
}

fn measured(kafka: &Kafka, postgres: &Postgres, topic: &str, messages: u64) -> Measured {
    Measured {
        database: postgres.url.clone(),
        brokers: kafka.brokers.clone(),
        group: "bench".to_owned(),
        topic: topic.to_owned(),
        messages,
        connections: 1,
    }
}
