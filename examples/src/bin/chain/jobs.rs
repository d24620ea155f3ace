//! Order → charge → receipt. Each job writes its row and enqueues the next job in one transaction,
//! so each step happens exactly once, and none is forgotten.

use idempotent_jobs::prelude::*;
use serde::{Deserialize, Serialize};

use crate::outside::{Bank, Mail};

/// The jobs' names.
pub const ALL: [&str; 3] = ["take_order", "charge_card", "send_receipt"];

/// Their tables, with nothing in them that would keep a second row out.
pub const TABLES: &str = "CREATE TABLE IF NOT EXISTS orders (order_id BIGINT, cents BIGINT); \
    CREATE TABLE IF NOT EXISTS charges (order_id BIGINT, payment BIGINT); \
    CREATE TABLE IF NOT EXISTS receipts (order_id BIGINT, payment BIGINT, mail BIGINT)";

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id")]
pub struct Order {
    pub order_id: i64,
    pub cents: i64,
}

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "charges", key = "order_id")]
pub struct Charge {
    order_id: i64,
    cents: i64,
}

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "receipts", key = "order_id")]
pub struct Receipt {
    order_id: i64,
    payment: i64,
}

#[idempotent_job]
async fn take_order(tx: &mut SqliteTx, job: Order) -> JobResult {
    println!("order {}", job.order_id);
    sqlx::query("INSERT INTO orders (order_id, cents) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(job.cents)
        .execute(&mut *tx)
        .await?;
    tx.enqueue(&Charge { order_id: job.order_id, cents: job.cents }).await?;
    Ok(())
}

/// The bank may be called more than once: its answer can be lost, and so can this process. The
/// key is the same every time, so it charges once.
#[idempotent_job]
async fn charge_card(tx: &mut SqliteTx, job: Charge, meta: Meta, State(bank): State<Bank>) -> JobResult {
    println!("charge {}", job.order_id);
    let payment = bank.charge(&meta.external_key("charge-card"), job.order_id, job.cents).await?;
    sqlx::query("INSERT INTO charges (order_id, payment) VALUES ($1, $2)")
        .bind(job.order_id)
        .bind(payment)
        .execute(&mut *tx)
        .await?;
    tx.enqueue(&Receipt { order_id: job.order_id, payment }).await?;
    Ok(())
}

#[idempotent_job]
async fn send_receipt(tx: &mut SqliteTx, job: Receipt, meta: Meta, State(mail): State<Mail>) -> JobResult {
    println!("receipt {}", job.order_id);
    let sent = mail.send(&meta.external_key("receipt-mail"), job.order_id, job.payment).await?;
    sqlx::query("INSERT INTO receipts (order_id, payment, mail) VALUES ($1, $2, $3)")
        .bind(job.order_id)
        .bind(job.payment)
        .bind(sent)
        .execute(&mut *tx)
        .await?;
    Ok(())
}
