//! What a competent engineer writes by hand instead of using this library: rdkafka, sqlx, a claim
//! and an effect in one transaction.
//!
//! Frozen: ratios of different times can only be compared while their other side stays the same.
//! Beyond what newer versions of the crates ask for, nothing in this folder is changed.
//!
//! It has no guard, no retries, no conflict; the offsets are committed at its end.

mod postgres;
mod sqlite;

use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::{Message, OwnedMessage};
use sha2::{Digest, Sha256};

use crate::Failure;
use crate::message::{Charge, Op};
use crate::options::Measured;
use crate::progress::Progress;

const JOB: &str = "charge";

/// Works off the topic.
pub async fn run(measured: &Measured, per_transaction: usize, progress: &Arc<Progress>) -> Result<(), Failure> {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &measured.brokers)
        .set("group.id", &measured.group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[&measured.topic])?;
    if measured.database.starts_with("sqlite:") {
        sqlite::consume(&consumer, measured, per_transaction, progress).await?;
    } else {
        postgres::consume(&consumer, measured, progress).await?;
    }
    consumer.commit(&consumer.position()?, CommitMode::Sync)?;
    Ok(())
}

/// What is stored of a message.
struct Decoded {
    charge: Charge,
    key: String,
    fingerprint: [u8; 32],
}

fn decode(message: &OwnedMessage) -> Result<Decoded, Failure> {
    let payload = message.payload().ok_or("a message without a payload")?;
    let charge: Charge = serde_json::from_slice(payload)?;
    let op = match charge.op {
        Op::Charge => "charge",
    };
    let key = serde_json::to_string(&(charge.order_id, op))?;
    Ok(Decoded { charge, key, fingerprint: Sha256::digest(payload).into() })
}
