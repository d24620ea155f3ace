//! The chain of jobs, run as a user runs it, and killed at random while it works.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is not as expected")]

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use idempotent_jobs::embedded::Broker;
use idempotent_jobs::prelude::*;
use serde::Serialize;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

fn chain() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chain"));
    for (name, _) in std::env::vars_os() {
        if name == "DATABASE_URL" || name.to_string_lossy().starts_with("KAFKA_") {
            command.env_remove(name);
        }
    }
    command
}

#[test]
fn prod_01_every_step_of_the_chain_happens_once() {
    let output = chain().output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let calls = said.lines().last().and_then(|line| line.strip_prefix("12 payments and 12 mails by "));
    let calls: i64 = calls.and_then(|rest| rest.strip_suffix(" calls")).expect(&said).parse().unwrap();
    assert!(calls > 24, "no answer was lost: {said}");
    assert!(said.contains("12 orders, 12 charges, 12 receipts\n"), "{said}");
}

#[derive(Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id")]
struct Order {
    order_id: i64,
    cents: i64,
}

/// What the worker runs on, outliving it.
struct Place {
    broker: Broker,
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("chain-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let broker = Broker::start(&[("orders", 3), ("charges", 3), ("receipts", 3)]).unwrap();
        Self { broker, folder }
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite://{}?mode=rwc", self.folder.join(name).display())
    }

    fn order(&self, orders: i64) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let producer = self.broker.producer("shop").unwrap();
            for order_id in 1..=orders {
                for _ in 0..2 {
                    producer.send(&Order { order_id, cents: 490 * order_id }).await.unwrap();
                }
            }
        });
    }

    fn worker(&self, orders: i64) -> Child {
        let environment = [
            ("KAFKA_BROKERS", self.broker.bootstrap_servers().to_owned()),
            ("KAFKA_GROUP_ID", "shop".to_owned()),
            ("KAFKA_GROUP_PROTOCOL", "consumer".to_owned()),
            ("DATABASE_URL", self.url("ours.sqlite")),
            ("SERVICES_URL", self.url("services.sqlite")),
            ("ORDERS", orders.to_string()),
        ];
        chain().arg("worker").envs(environment).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn numbers(&self, database: &str, queries: &[String]) -> Vec<i64> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut conn = SqliteConnection::connect(&self.url(database)).await.unwrap();
            let mut numbers = Vec::new();
            for query in queries {
                numbers.push(sqlx::query_scalar(AssertSqlSafe(query.as_str())).fetch_one(&mut conn).await.unwrap());
            }
            numbers
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Kills are told by what the worker says it is doing, so each of them strikes work.
#[test]
fn side_01_the_chain_is_exact_through_random_kills() {
    const ORDERS: i64 = 300;
    const KILLS: usize = 10;
    let place = Place::new();
    place.order(ORDERS);
    let mut after = Vec::new();
    for _ in 0..KILLS {
        let mut worker = place.worker(ORDERS);
        // All of them together are fewer than there are steps.
        let steps = 1 + usize::try_from(RandomState::new().hash_one(()) % 80).unwrap();
        after.push(steps);
        let said = BufReader::new(worker.stdout.take().unwrap()).lines().take(steps).count();
        worker.kill().unwrap();
        worker.wait().unwrap();
        assert_eq!(said, steps, "it ended before it was killed, after {after:?} steps");
    }
    let mut worker = place.worker(ORDERS);
    let said = BufReader::new(worker.stdout.take().unwrap()).lines().count();
    assert!(worker.wait().unwrap().success(), "after {said} steps");

    let count = |what: &str, from: &str| format!("SELECT count({what}) FROM {from}");
    let of_all = |what| ["orders", "charges", "receipts"].map(|table| count(what, table));
    let of_services = ["bank", "mail"].map(|service| count("*", &format!("done WHERE service = '{service}'")));
    let paid = "receipts r JOIN charges c ON c.order_id = r.order_id AND c.payment = r.payment";
    let killed = format!("killed after {after:?} steps");
    assert_eq!(place.numbers("ours.sqlite", &of_all("*")), [ORDERS; 3], "rows, {killed}");
    assert_eq!(place.numbers("ours.sqlite", &of_all("DISTINCT order_id")), [ORDERS; 3], "orders, {killed}");
    assert_eq!(place.numbers("ours.sqlite", &[count("*", paid)]), [ORDERS], "receipts of their payment, {killed}");
    assert_eq!(place.numbers("services.sqlite", &of_services), [ORDERS; 2], "payments and mails, {killed}");
}
