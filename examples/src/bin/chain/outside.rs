//! Somebody else's services, with a memory of their own: a bank and a mail provider that take an
//! `Idempotency-Key`, and whose answers get lost.

use sqlx::SqlitePool;

use crate::Failure;

/// What they remember: each key, what it was for, and how often it came.
const MEMORY: &str = "CREATE TABLE IF NOT EXISTS done (\
    id INTEGER PRIMARY KEY, service TEXT, key TEXT, order_id BIGINT, amount BIGINT, calls BIGINT, UNIQUE (service, key))";

/// Opens the memory of all services.
pub async fn open(url: &str) -> Result<SqlitePool, Failure> {
    let memory = SqlitePool::connect(url).await?;
    sqlx::query(MEMORY).execute(&memory).await?;
    Ok(memory)
}

#[derive(Clone)]
pub struct Bank(pub SqlitePool);

impl Bank {
    /// Charges a card once for a key, and gives the number of the payment.
    pub async fn charge(&self, key: &str, order_id: i64, cents: i64) -> Result<i64, Failure> {
        call(&self.0, "bank", key, order_id, cents).await
    }
}

#[derive(Clone)]
pub struct Mail(pub SqlitePool);

impl Mail {
    /// Sends a mail once for a key, and gives its number.
    pub async fn send(&self, key: &str, order_id: i64, payment: i64) -> Result<i64, Failure> {
        call(&self.0, "mail", key, order_id, payment).await
    }
}

/// A key that came before is answered from memory. Every third first answer is lost on its way.
async fn call(memory: &SqlitePool, service: &str, key: &str, order_id: i64, amount: i64) -> Result<i64, Failure> {
    let (id, calls): (i64, i64) = sqlx::query_as(
        "INSERT INTO done (service, key, order_id, amount, calls) VALUES ($1, $2, $3, $4, 1) \
         ON CONFLICT (service, key) DO UPDATE SET calls = calls + 1 RETURNING id, calls",
    )
    .bind(service)
    .bind(key)
    .bind(order_id)
    .bind(amount)
    .fetch_one(memory)
    .await?;
    if calls == 1 && id % 3 == 0 {
        println!("{service}: the answer about order {order_id} is lost");
        return Err(format!("no answer from the {service}").into());
    }
    if calls > 1 {
        println!("{service}: a key that came before, nothing is done again for order {order_id}");
    }
    Ok(id)
}
