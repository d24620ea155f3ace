//! The HTTP service, run, and asked as clients ask: twice, at once, while it is killed.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is not as expected")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

/// A database of one test, removed when dropped.
struct Database(PathBuf);

impl Database {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("http-example-{}-{name}.sqlite", std::process::id()));
        Self(path)
    }

    fn url(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.0.display())
    }

    /// Orders, and messages about them.
    fn stored(&self) -> (i64, i64) {
        let count = |table: &str| AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut conn = SqliteConnection::connect(&self.url()).await.unwrap();
            let orders = sqlx::query_scalar(count("orders")).fetch_one(&mut conn).await.unwrap();
            let messages = sqlx::query_scalar(count("idempotent_jobs_outbox")).fetch_one(&mut conn).await.unwrap();
            conn.close().await.unwrap();
            (orders, messages)
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.0.display()));
        }
    }
}

/// The running service. Dropped, it is killed as by SIGKILL.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(database: &Database) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_http"));
        command.env("DATABASE_URL", database.url()).env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status, `idempotent-replayed`, body.
type Answer = (u16, Option<bool>, Value);

fn post(address: &str, key: Option<&str>, body: &Value) -> io::Result<Answer> {
    let body = body.to_string();
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        stream,
        "POST /orders HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Type: application/json\r\n{key}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other(format!("the answer was cut off: {answer:?}")))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let replayed = head.lines().find_map(|line| line.strip_prefix("idempotent-replayed: ")).map(|it| it == "true");
    Some((status, replayed, serde_json::from_str(body).ok()?))
}

fn order(cents: i64) -> Value {
    json!({ "customer": "ann", "item": "tea", "cents": cents })
}

#[test]
fn a_retried_post_has_one_effect_and_the_stored_answer() {
    let database = Database::new("retried");
    let service = Service::start(&database);
    let first = post(&service.address, Some("a"), &order(490)).unwrap();
    assert_eq!(first, (201, Some(false), json!({ "order_id": 1 })));
    for _ in 0..3 {
        let again = post(&service.address, Some("a"), &order(490)).unwrap();
        assert_eq!(again, (201, Some(true), json!({ "order_id": 1 })));
    }
    let other = post(&service.address, Some("b"), &order(490)).unwrap();
    assert_eq!(other, (201, Some(false), json!({ "order_id": 2 })), "another key is another order");
    assert_eq!(database.stored(), (2, 2));
}

#[test]
fn the_same_post_many_times_at_once_has_one_effect() {
    let database = Database::new("at-once");
    let service = Service::start(&database);
    let answers: Vec<Answer> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..8).map(|_| scope.spawn(|| post(&service.address, Some("a"), &order(490)).unwrap())).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.1 == Some(false)).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.0 == 201 && answer.2 == json!({ "order_id": 1 })), "{answers:?}");
    assert_eq!(database.stored(), (1, 1));
}

#[test]
fn what_is_not_the_request_of_its_key_is_refused() {
    let database = Database::new("refused");
    let service = Service::start(&database);
    let status = |key, body: &Value| post(&service.address, key, body).unwrap().0;
    assert_eq!(status(None, &order(490)), 400);
    assert_eq!(status(Some(""), &order(490)), 400);
    assert_eq!(status(Some("a"), &json!({ "customer": "ann" })), 400);
    assert_eq!(status(Some("a"), &order(490)), 201);
    assert_eq!(status(Some("a"), &order(9000)), 422);
    let other = json!({ "customer": "bob", "item": "tea", "cents": 490 });
    assert_eq!(status(Some("a"), &other), 201, "another customer's key is another key");
    assert_eq!(database.stored(), (2, 2));
}

/// Clients send again until they have an answer, whatever becomes of the service.
#[test]
fn clients_that_retry_through_kills_have_one_order_each() {
    const CLIENTS: i64 = 4;
    const ORDERS: i64 = 25;
    const KILLS: usize = 6;
    let database = Database::new("killed");
    let service = Mutex::new(Some(Service::start(&database)));
    let address = || service.lock().unwrap().as_ref().map(|service| service.address.clone());
    let answered = Mutex::new(BTreeMap::new());
    let insist = |key: String| {
        loop {
            match address().map(|address| post(&address, Some(&key), &order(490))) {
                Some(Ok((201, _, body))) => return answered.lock().unwrap().insert(key, body.to_string()),
                Some(Ok((503, ..)) | Err(_)) | None => thread::yield_now(),
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || (0..ORDERS).for_each(|order| drop(insist(format!("{client}-{order}")))));
        }
        for kill in 1..=KILLS {
            // In the midst of the work, and not in a pause of it.
            let share = (CLIENTS * ORDERS) as usize * kill / (KILLS + 1);
            while answered.lock().unwrap().len() < share {
                thread::yield_now();
            }
            let mut service = service.lock().unwrap();
            drop(service.take());
            *service = Some(Service::start(&database));
        }
    });
    let answered = answered.into_inner().unwrap();
    let ids: BTreeSet<_> = answered.values().collect();
    assert_eq!((answered.len(), ids.len()), (100, 100), "{answered:?}");
    assert_eq!(database.stored(), (100, 100));
    // And the answers are still the same.
    let service = service.into_inner().unwrap().unwrap();
    for (key, body) in &answered {
        let again = post(&service.address, Some(key), &order(490)).unwrap();
        assert_eq!((again.0, again.1, again.2.to_string()), (201, Some(true), body.clone()));
    }
}
