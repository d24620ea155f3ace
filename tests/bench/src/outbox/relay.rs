//! A relay of ours, until its outbox is empty, or until it is told to end.

use std::sync::Arc;
use std::time::Duration;

use idempotent_jobs::Relay;
use sqlx::{Connection, PgConnection};
use tokio::io::AsyncReadExt;
use tokio::time::interval;

use crate::Failure;
use crate::kafka::Kafka;
use crate::options::Measured;
use crate::progress::Progress;

/// Measured from the first record in Kafka, which may be a whole batch, to the last one marked.
pub async fn run(measured: &Measured, progress: &Arc<Progress>) -> Result<(), Failure> {
    let relay = Relay::builder().database_url(&measured.database).brokers(&measured.brokers);
    if measured.messages == 0 {
        relay.shutdown_on(end_of_input()).run().await?;
        progress.done(0);
        return Ok(());
    }
    let (done, watching) = (Arc::clone(progress), measured.clone());
    let watched = tokio::spawn(async move { watch(&watching, &done).await });
    relay
        .shutdown_on(async move { watched.await.expect("the watch does not panic").expect("the outbox is watched") })
        .run()
        .await?;
    Ok(())
}

async fn end_of_input() {
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}

async fn watch(measured: &Measured, progress: &Progress) -> Result<(), Failure> {
    let kafka = Kafka { brokers: measured.brokers.clone() };
    let mut conn = PgConnection::connect(&measured.database).await?;
    let first = loop {
        match kafka.there(&measured.topic)? {
            0 => tokio::time::sleep(Duration::from_millis(2)).await,
            first => break first,
        }
    };
    progress.begin();
    let mut ticks = interval(Duration::from_millis(20));
    loop {
        ticks.tick().await;
        let left: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM idempotent_jobs.outbox)").fetch_one(&mut conn).await?;
        if !left {
            progress.done(measured.messages - first);
            progress.end();
            return Ok(());
        }
    }
}
