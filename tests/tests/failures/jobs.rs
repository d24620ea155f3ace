//! The jobs of these tests. Each test runs the ones it names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_jobs::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tests::broker::Wire;
use tests::database::effect_sqlite;
use tests::world::Topic;

pub const ORDERS: Topic = ("orders", 2);

#[derive(Debug, Deserialize, KeyPart)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    #[key("charge")]
    Charge,
    #[key("refund")]
    Refund,
}

#[derive(Debug, Deserialize)]
pub struct Order {
    pub order_id: i64,
    pub op: Op,
    #[serde(default)]
    pub does: String,
}

/// Succeeds, or fails by `does` on its first attempt (`…_once`) or on all.
#[idempotent_job(
    topic = "orders", key = "order_id, op", ordering = partition,
    retries = 2, backoff = "1ms..20ms", timeout = "2s"
)]
async fn charge(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    effect_sqlite(tx, "charge", order.order_id, &meta).await?;
    match (order.does.as_str(), meta.attempt) {
        ("fail_once", 1) | ("fail", _) => Err("the handler says no".into()),
        ("panic_once", 1) => panic!("the handler panics"),
        ("hang_once", 1) => std::future::pending().await,
        ("terminal", _) => Err(JobError::terminal("no retry can help")),
        _ => Ok(()),
    }
}

/// The same, and what it cannot process stops its worker or is passed over.
#[idempotent_job(
    topic = "orders", key = "order_id, op", ordering = partition, retries = 2, backoff = "1ms..20ms",
    on_exhausted = stop, on_conflict = fail, on_tombstone = skip,
)]
async fn charge_or_stop(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    effect_sqlite(tx, "charge_or_stop", order.order_id, &meta).await?;
    match order.does.as_str() {
        "fail" => Err("the handler says no".into()),
        "terminal" => Err(JobError::terminal("no retry can help")),
        _ => Ok(()),
    }
}

/// Passes over keys that are used again with other content.
#[idempotent_job(topic = "orders", key = "order_id, op", on_conflict = skip)]
async fn lenient(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    Ok(effect_sqlite(tx, "lenient", order.order_id, &meta).await?)
}

/// What a handler sees of the world outside.
#[derive(Clone, Default)]
pub struct Mood(pub Arc<AtomicBool>);

/// Snoozes or discards until the world is in a better mood, after an effect that is to be undone.
#[idempotent_job(topic = "orders", key = "order_id, op", retries = 0, backoff = "1ms..20ms")]
async fn moody(tx: &mut SqliteTx, order: Order, meta: Meta, State(mood): State<Mood>) -> JobResult {
    effect_sqlite(tx, "moody", order.order_id, &meta).await?;
    match order.does.as_str() {
        _ if mood.0.load(Ordering::SeqCst) => Ok(()),
        "snooze" => Err(JobError::snooze(Duration::from_millis(50))),
        "discard" => Err(JobError::discard("the account is closed")),
        "fail" => Err("the handler says no".into()),
        _ => Ok(()),
    }
}

/// What the outside was told, call by call.
#[derive(Clone, Default)]
pub struct Outside(pub Arc<Mutex<Vec<String>>>);

/// Calls the outside with its key, and fails once after the call.
#[idempotent_job(topic = "orders", key = "order_id, op", ordering = partition, backoff = "1ms..20ms")]
async fn calls_out(tx: &mut SqliteTx, order: Order, meta: Meta, State(outside): State<Outside>) -> JobResult {
    effect_sqlite(tx, "calls_out", order.order_id, &meta).await?;
    outside.0.lock().expect("no panic while it is told").push(meta.external_key("charge-card"));
    if meta.attempt == 1 { Err("after the call".into()) } else { Ok(()) }
}

/// A second job on the topic with the same key.
#[idempotent_job(topic = "orders", key = "order_id, op")]
async fn notify(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    Ok(effect_sqlite(tx, "notify", order.order_id, &meta).await?)
}

/// A key that is too narrow: charge and refund of an order are the same to it.
#[idempotent_job(topic = "orders", key = "order_id")]
async fn too_narrow(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    Ok(effect_sqlite(tx, "too_narrow", order.order_id, &meta).await?)
}

/// Takes one event only.
#[idempotent_job(topic = "orders", key = "order_id, op", event = "charged")]
async fn on_charged(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    Ok(effect_sqlite(tx, "on_charged", order.order_id, &meta).await?)
}

/// Works longer than the poll interval of its test.
#[idempotent_job(topic = "orders", key = "order_id, op")]
async fn long(tx: &mut SqliteTx, order: Order, meta: Meta) -> JobResult {
    tokio::time::sleep(Duration::from_secs(12)).await;
    Ok(effect_sqlite(tx, "long", order.order_id, &meta).await?)
}

/// A good order on a partition.
pub fn order(partition: i32, id: i64) -> Wire {
    json(partition, &json!({ "order_id": id, "op": "charge" }))
}

/// An order whose handler does something else.
pub fn doing(partition: i32, id: i64, does: &str) -> Wire {
    json(partition, &json!({ "order_id": id, "op": "charge", "does": does }))
}

/// A JSON payload.
pub fn json(partition: i32, value: &Value) -> Wire {
    Wire { partition, payload: Some(value.to_string().into_bytes()), ..Wire::default() }
}
