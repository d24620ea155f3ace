//! A batch job: one statement for all fresh messages of a batch, however often they are delivered.
//! Brings what it needs: `cargo run --bin batch`.

use idempotent_jobs::Worker;
use idempotent_jobs::embedded::Broker;
use idempotent_jobs::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "readings", key = "sensor, hour", partition_by = "sensor")]
struct Reading {
    sensor: String,
    hour: u32,
    celsius: i64,
}

type Stored = mpsc::UnboundedSender<i64>;

/// `batch` says up to how many; a `Vec` of an extractor has one for each job.
#[idempotent_job(batch = 100)]
async fn store(tx: &mut SqliteTx, jobs: Vec<Reading>, metas: Vec<Meta>, State(stored): State<Stored>) -> JobResult {
    sqlx::query("CREATE TABLE IF NOT EXISTS readings (sensor TEXT, hour BIGINT, celsius BIGINT, at BIGINT)")
        .execute(&mut *tx)
        .await?;
    let mut insert = QueryBuilder::<Sqlite>::new("INSERT INTO readings ");
    insert.push_values(jobs.iter().zip(&metas), |mut row, (job, meta)| {
        row.push_bind(&job.sensor).push_bind(job.hour).push_bind(job.celsius).push_bind(meta.offset);
    });
    insert.build().execute(&mut *tx).await?;

    let readings = sqlx::query_scalar("SELECT count(*) FROM readings").fetch_one(&mut *tx).await?;
    stored.send(readings)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let broker = Broker::start(&[("readings", 1)])?;
    let producer = broker.producer("weather")?;
    for hour in 0..24 {
        let reading = || Reading { sensor: "attic".to_owned(), hour, celsius: 15 };
        // The second is a duplicate.
        for reading in [reading(), reading()] {
            producer.send(&reading).await?;
        }
    }

    let file = std::env::temp_dir().join(format!("batch-example-{}.sqlite", std::process::id()));
    let (stored, mut counts) = mpsc::unbounded_channel();
    let a_day = async move {
        let (mut statements, mut readings) = (0, 0);
        while readings < 24 {
            readings = counts.recv().await.unwrap_or(24);
            statements += 1;
        }
        println!("{readings} readings by {statements} statements");
    };
    Worker::builder()
        .brokers(broker.bootstrap_servers())
        .group_id("weather")
        .database_url(format!("sqlite://{}?mode=rwc", file.display()))
        .state::<Stored>(stored)
        .shutdown_on(a_day)
        .run()
        .await?;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
    Ok(())
}
