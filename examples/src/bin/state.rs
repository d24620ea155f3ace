//! What a job may ask for after its payload: state of the worker, headers, the message's place,
//! and extractors of one's own. Brings what it needs: `cargo run --bin state`.

use std::sync::Arc;

use idempotent_jobs::embedded::Broker;
use idempotent_jobs::prelude::*;
use idempotent_jobs::{Context, States, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "parcels", key = "parcel", event = "shipped")]
struct Shipped {
    parcel: String,
}

/// Given to the worker once; each attempt gets a clone.
#[derive(Clone)]
struct Tariff {
    cents: i64,
}

/// An extractor of one's own, over another one: how often the worker tried before.
struct Retries(u32);

impl Extract for Retries {
    fn check(states: &States) -> Result<(), String> {
        Meta::check(states)
    }

    fn extract(context: &Context) -> Result<Self, JobError> {
        Ok(Self(Meta::extract(context)?.attempt - 1))
    }
}

type Seen = mpsc::UnboundedSender<String>;

#[idempotent_job(topic = "parcels", key = "parcel", event = "shipped")]
async fn bill(
    tx: &mut SqliteTx,
    job: Shipped,
    State(tariff): State<Arc<Tariff>>,
    State(seen): State<Seen>,
    headers: Headers,
    meta: Meta,
    Retries(retries): Retries,
) -> JobResult {
    sqlx::query("CREATE TABLE IF NOT EXISTS bills (parcel TEXT, cents BIGINT)").execute(&mut *tx).await?;
    sqlx::query("INSERT INTO bills VALUES ($1, $2)").bind(&job.parcel).bind(tariff.cents).execute(&mut *tx).await?;

    let event = headers.get("event").map(String::from_utf8_lossy).unwrap_or_default();
    // `meta.key` is the same on every attempt and redelivery: the one to pass on to a payment service.
    let line = format!(
        "{event}: {} for {} cents, key {}, offset {}, {retries} retries",
        job.parcel, tariff.cents, meta.key, meta.offset
    );
    seen.send(line)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let broker = Broker::start(&[("parcels", 1)])?;
    let producer = broker.producer("billing")?;
    for parcel in ["A1", "A1", "B2"] {
        producer.send(&Shipped { parcel: parcel.to_owned() }).await?;
    }

    let file = std::env::temp_dir().join(format!("state-example-{}.sqlite", std::process::id()));

    let (seen, mut lines) = mpsc::unbounded_channel();
    let two_bills = async move {
        for _ in 0..2 {
            println!("{}", lines.recv().await.unwrap_or_default());
        }
    };
    Worker::builder()
        .brokers(broker.bootstrap_servers())
        .group_id("billing")
        .database_url(format!("sqlite://{}?mode=rwc", file.display()))
        .state(Arc::new(Tariff { cents: 490 }))
        .state::<Seen>(seen)
        .shutdown_on(two_bills)
        .run()
        .await?;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
    Ok(())
}
