//! A chain of jobs, each step exactly once from end to end: order → charge → receipt. Begin with
//! [`jobs`]: that is all a user writes.
//!
//! `cargo run --bin chain` brings what it needs, sends twelve orders, each of them twice, and ends when all
//! receipts are there. `chain worker` runs the jobs alone, on the servers of the environment, until there
//! are so many receipts as `ORDERS` says: to be killed and started again as often as you like.

mod jobs;
mod outside;
mod place;
mod report;

use std::error::Error;
use std::io::Read as _;

use idempotent_jobs::embedded::Broker;
use idempotent_jobs::{Worker, WorkerBuilder};
use tokio::sync::oneshot;

use crate::jobs::Order;
use crate::outside::{Bank, Mail};
use crate::place::{Folder, Place};
use crate::report::Report;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match std::env::args().nth(1).as_deref() {
        None => show().await,
        Some("worker") => worker().await,
        Some(other) => Err(format!("`{other}` is no command: there is `worker`").into()),
    }
}

/// The whole chain in this process.
async fn show() -> Result<(), Failure> {
    const ORDERS: i64 = 12;
    let folder = Folder::create()?;
    let place = Place::open(folder.url("ours.sqlite"), &folder.url("services.sqlite")).await?;
    let broker = Broker::start(&[("orders", 3), ("charges", 3), ("receipts", 3)])?;
    let producer = broker.producer("shop")?;
    for order_id in 1..=ORDERS {
        for _ in 0..2 {
            producer.send(&Order { order_id, cents: 490 * order_id }).await?;
        }
    }
    let builder = Worker::builder().brokers(broker.bootstrap_servers()).group_id("shop");
    run(builder.shutdown_on(Place::receipts(place.ours.clone(), ORDERS)), &place).await?;
    Report::read(&place).await?.print();
    Ok(())
}

/// The jobs alone.
async fn worker() -> Result<(), Failure> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let place = Place::open(variable("DATABASE_URL")?, &variable("SERVICES_URL")?).await?;
    let all = Place::receipts(place.ours.clone(), variable("ORDERS")?.parse()?);
    let end = async {
        tokio::select! { () = all => {}, () = let_go() => {} }
    };
    run(Worker::from_env().shutdown_on(end), &place).await
}

async fn run(builder: WorkerBuilder, place: &Place) -> Result<(), Failure> {
    let builder = builder.database_url(&place.url).jobs(jobs::ALL);
    Ok(builder.state(Bank(place.services.clone())).state(Mail(place.services.clone())).run().await?)
}

/// Returns when standard input ends, as it does whatever way the parent goes.
async fn let_go() {
    let (gone, told) = oneshot::channel();
    // A thread of its own: a read of standard input cannot be called off, and must not hold the runtime.
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = gone.send(());
    });
    let _ = told.await;
}
