//! A worker with a chain of jobs, order → charge → receipt, to be killed. Each job tells what it
//! begins on standard output.

use std::io::Read as _;
use std::process::ExitCode;

use idempotent_jobs::Worker;
use idempotent_jobs::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tests::database::effect_pg;

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "chain-orders", key = "id")]
struct Order {
    id: i64,
}

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "chain-charges", key = "id")]
struct Charge {
    id: i64,
}

#[derive(Serialize, Deserialize, JobMessage)]
#[message(topic = "chain-receipts", key = "id")]
struct Receipt {
    id: i64,
}

#[idempotent_job]
async fn order(tx: &mut PgTx, job: Order, meta: Meta) -> JobResult {
    println!("begins order {}", job.id);
    effect_pg(tx, "order", job.id, &meta).await?;
    tx.enqueue(&Charge { id: job.id }).await?;
    Ok(())
}

#[idempotent_job(backoff = "10ms..50ms")]
async fn charge(tx: &mut PgTx, job: Charge, meta: Meta, State(outside): State<PgPool>) -> JobResult {
    println!("begins charge {}", job.id);
    tx.enqueue(&Receipt { id: job.id }).await?;
    call(&outside, "charge-card", &meta, job.id).await?;
    effect_pg(tx, "charge", job.id, &meta).await?;
    Ok(())
}

#[idempotent_job(backoff = "10ms..50ms")]
async fn receipt(tx: &mut PgTx, job: Receipt, meta: Meta, State(outside): State<PgPool>) -> JobResult {
    println!("begins receipt {}", job.id);
    effect_pg(tx, "receipt", job.id, &meta).await?;
    call(&outside, "receipt-mail", &meta, job.id).await?;
    Ok(())
}

/// A call to the outside, on a connection that no job's transaction covers: every one is there, the
/// repeated ones too. Every tenth first answer is lost.
async fn call(
    outside: &PgPool,
    purpose: &str,
    meta: &Meta,
    id: i64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    sqlx::query("INSERT INTO calls (purpose, key, id) VALUES ($1, $2, $3)")
        .bind(purpose)
        .bind(meta.external_key(purpose))
        .bind(id)
        .execute(outside)
        .await?;
    if meta.attempt == 1 && id % 10 == 0 { Err("the answer is lost".into()) } else { Ok(()) }
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_env_filter("warn").with_writer(std::io::stderr).with_ansi(false).init();
    // Dies with whoever started it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(3);
    });
    let database = std::env::var("DATABASE_URL").expect("DATABASE_URL names the database");
    let outside = PgPool::connect_lazy(&database).expect("DATABASE_URL is PostgreSQL's");
    match Worker::from_env().jobs(["order", "charge", "receipt"]).state(outside).run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
