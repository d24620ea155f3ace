//! An HTTP service whose clients may send a request as often as they like: a `POST` with an
//! `Idempotency-Key` has one effect, and the same answer every time.
//!
//! ```sh
//! DATABASE_URL='sqlite://orders.sqlite?mode=rwc' LISTEN=127.0.0.1:3000 cargo run --bin http
//! curl -i localhost:3000/orders -H 'Idempotency-Key: 7f3a' -H 'Content-Type: application/json' \
//!     -d '{"customer":"ann","item":"tea","cents":490}'
//! ```
//!
//! The order and the message about it are written in one transaction. No Kafka is needed here:
//! a worker on the same database relays the message.

use std::env;
use std::error::Error;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use idempotent_jobs::{JobMessage, OnceError, once, outbox};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Order {
    customer: String,
    item: String,
    cents: i64,
}

/// The answer: stored with the order, and given to whoever asks again.
#[derive(Serialize, Deserialize)]
struct Placed {
    order_id: i64,
}

/// What others are told.
#[derive(Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id", partition_by = "order_id", event = "ordered")]
struct Ordered {
    order_id: i64,
    cents: i64,
}

async fn place(
    State(pool): State<SqlitePool>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Response, Refused> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.filter(|key| !key.is_empty()).ok_or(Refused::NoKey)?;
    let order = Order::deserialize(&body).map_err(Refused::NoOrder)?;
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(Refused::database)?;

    // The customer is part of the key: nobody gets another's answer by sending another's key. A
    // service with a login takes it from there. The whole body is compared, as it came.
    let placed = once(&mut *tx, "POST /orders", (&order.customer, key), &body, async |tx| {
        let order_id =
            sqlx::query_scalar("INSERT INTO orders (customer, item, cents) VALUES ($1, $2, $3) RETURNING id")
                .bind(&order.customer)
                .bind(&order.item)
                .bind(order.cents)
                .fetch_one(&mut *tx)
                .await?;
        outbox::enqueue(&mut *tx, &Ordered { order_id, cents: order.cents }).await?;
        Ok::<_, Failure>(Placed { order_id })
    })
    .await?;

    // Nobody is told before it is stored.
    tx.commit().await.map_err(Refused::database)?;
    let replayed = [("idempotent-replayed", (!placed.ran()).to_string())];
    Ok((StatusCode::CREATED, replayed, Json(placed.into_answer())).into_response())
}

type Failure = Box<dyn Error + Send + Sync>;

/// Why there is no order.
enum Refused {
    NoKey,
    NoOrder(serde_json::Error),
    KeyOfAnotherRequest,
    TryAgain,
    Failed(Failure),
}

impl Refused {
    fn database(_: sqlx::Error) -> Self {
        Self::TryAgain
    }
}

impl From<OnceError<Failure>> for Refused {
    fn from(error: OnceError<Failure>) -> Self {
        match error {
            OnceError::KeyMissing { .. } => Self::NoKey,
            OnceError::Conflict { .. } => Self::KeyOfAnotherRequest,
            OnceError::Store { transient: true, .. } => Self::TryAgain,
            OnceError::Effect(error) => Self::Failed(error),
            other => Self::Failed(other.to_string().into()),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Self::NoKey => (StatusCode::BAD_REQUEST, "send an Idempotency-Key header".to_owned()),
            Self::NoOrder(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            Self::KeyOfAnotherRequest => {
                (StatusCode::UNPROCESSABLE_ENTITY, "this Idempotency-Key was used with another request".to_owned())
            }
            Self::TryAgain => (StatusCode::SERVICE_UNAVAILABLE, "try again, with the same key".to_owned()),
            Self::Failed(error) => {
                eprintln!("an order failed: {error}");
                (StatusCode::INTERNAL_SERVER_ERROR, "failed".to_owned())
            }
        };
        (status, Json(json!({ "error": why }))).into_response()
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite://orders.sqlite?mode=rwc".to_owned());
    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    outbox::migrate(&url).await?;
    let pool = SqlitePool::connect(&url).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT, item TEXT, cents INTEGER)")
        .execute(&pool)
        .await?;

    let listener = TcpListener::bind(&listen).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/orders", post(place)).with_state(pool)).await?;
    Ok(())
}
