//! A service that only produces: no job, no database. A message sent again carries the same key.
//!
//! ```sh
//! KAFKA_BROKERS=… cargo run --bin producer_only -- 1 2933
//! ```

use std::time::Duration;

use idempotent_jobs::{JobMessage, Producer};
use serde::Serialize;

#[derive(Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id", partition_by = "order_id", event = "ordered")]
struct Ordered {
    order_id: i64,
    amount_cents: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        |name: &str| arguments.next().ok_or(format!("usage: producer_only ORDER_ID AMOUNT_CENTS; {name} is missing"));
    let message = Ordered { order_id: next("ORDER_ID")?.parse()?, amount_cents: next("AMOUNT_CENTS")?.parse()? };

    let producer = Producer::from_env()?;
    send(&producer, &message).await?;
    producer.close(Duration::from_secs(10)).await?;
    Ok(())
}

/// Whether a failed send is in the log does not matter: sending again is safe.
async fn send(producer: &Producer, message: &Ordered) -> Result<(), idempotent_jobs::SendError> {
    let sent = match producer.send(message).await {
        Err(error) if error.maybe_delivered() => producer.send(message).await?,
        answer => answer?,
    };
    println!("order {} is in partition {} at offset {}", message.order_id, sent.partition, sent.offset);
    Ok(())
}
