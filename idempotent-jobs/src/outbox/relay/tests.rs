//! The relay whole, on SQLite and the embedded broker, with faults of both.

#![cfg(feature = "embedded")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::embedded::Broker;
use crate::kafka::Properties;
use crate::store::{Failure, Kept, Place, Row, Shard, Share, StoreError, Wanted, open_relay};

/// How long anything may take that takes moments when it works.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bed {
    broker: Broker,
    file: PathBuf,
    conn: SqliteConnection,
    store: Arc<dyn RelayStore>,
}

impl Bed {
    async fn new() -> Self {
        let file = std::env::temp_dir().join(format!("idempotent-jobs-relay-{:016x}.sqlite", rand::random::<u64>()));
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let store = open_relay(&url).await.unwrap();
        let conn = SqliteConnection::connect(&url).await.unwrap();
        Self { broker: Broker::start(&[("a", 1), ("b", 1)]).unwrap(), file, conn, store }
    }

    /// Rows of as many partition keys.
    async fn put(&mut self, topic: &str, rows: usize) {
        for n in 0..rows {
            let sql = format!(
                "INSERT INTO idempotent_jobs_outbox (topic, key, key_parts, partition_key, payload, shard, ordered, size) \
                 VALUES ('{topic}', '[{n}]', 'n', '{n}', x'00', {}, 1, 100)",
                n % 32
            );
            self.conn.execute(AssertSqlSafe(sql)).await.unwrap();
        }
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch::new(&Properties::new(self.broker.bootstrap_servers()), None).unwrap()
    }

    async fn count(&mut self, state: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM idempotent_jobs_outbox {state}");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.conn).await.unwrap()
    }

    async fn becomes(&mut self, state: &str, rows: i64) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(state).await != rows {
            assert!(Instant::now() < deadline, "{state}: {}, not {rows}", self.count(state).await);
            tokio::task::yield_now().await;
        }
    }

    fn ends(&self, topic: &str) -> i64 {
        use rdkafka::consumer::{BaseConsumer, Consumer};
        let servers = self.broker.bootstrap_servers();
        let consumer: BaseConsumer = rdkafka::ClientConfig::new().set("bootstrap.servers", servers).create().unwrap();
        consumer.fetch_watermarks(topic, 0, PATIENCE).unwrap().1
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.file.display()));
        }
    }
}

struct Running(oneshot::Sender<Duration>, JoinHandle<()>);

fn start(store: &Arc<dyn RelayStore>, dispatch: Dispatch) -> Running {
    let (stop, stopped) = oneshot::channel();
    let terms = Terms { refused: Backoff::new(Duration::from_millis(1), Duration::from_millis(2)), ..Terms::default() };
    let stopped = async { stopped.await.unwrap_or_default() };
    Running(stop, tokio::spawn(relay(Arc::clone(store), dispatch, Arc::default(), terms, stopped)))
}

impl Running {
    async fn stop(self) {
        self.0.send(PATIENCE).unwrap();
        self.1.await.unwrap();
    }
}

#[tokio::test]
async fn a_producer_that_cannot_go_on_is_replaced() {
    let mut bed = Bed::new().await;
    let dispatch = bed.dispatch();
    dispatch.fail_for_good();
    bed.put("a", 100).await;
    let running = start(&bed.store, dispatch);
    bed.becomes("", 0).await;
    running.stop().await;
    assert_eq!(bed.ends("a"), 100);
}

#[tokio::test]
async fn out_05_the_neighbours_of_a_bad_record_are_sent_alone_and_not_set_aside() {
    let mut bed = Bed::new().await;
    bed.put("a", 100).await;
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    bed.broker.with(move |cluster| cluster.request_errors(RDKafkaApiKey::Produce, &[error])).unwrap();
    let running = start(&bed.store, bed.dispatch());
    bed.becomes("", 0).await;
    running.stop().await;
    assert_eq!(bed.ends("a"), 100);
}

#[tokio::test]
async fn out_05_a_record_that_is_refused_again_and_again_is_set_aside_and_no_other() {
    let mut bed = Bed::new().await;
    bed.put("no-such-topic", 1).await;
    bed.put("b", 100).await;
    let running = start(&bed.store, bed.dispatch());
    bed.becomes("WHERE topic = 'b'", 0).await;
    // The embedded broker makes topics by itself, or says that they are not there.
    if bed.count("").await > 0 {
        bed.becomes("WHERE state = 'failed' AND attempts = 10", 1).await;
    }
    running.stop().await;
    assert_eq!(bed.ends("b"), 100);
}

/// A database that fails two calls of three, whatever they are.
struct Flaky {
    store: Arc<dyn RelayStore>,
    calls: AtomicUsize,
}

impl Flaky {
    fn trouble(&self) -> Result<(), StoreError> {
        match self.calls.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => Ok(()),
            _ => Err(StoreError::unanswered(Duration::ZERO)),
        }
    }
}

#[async_trait]
impl RelayStore for Flaky {
    async fn due(&self, wanted: &Wanted) -> Result<Vec<Row>, StoreError> {
        self.trouble()?;
        self.store.due(wanted).await
    }

    async fn promote(&self) -> Result<u64, StoreError> {
        self.store.promote().await
    }

    /// It is done, and the answer is lost.
    async fn sent(&self, places: &[Place], keep: bool) -> Result<(), StoreError> {
        self.store.sent(places, keep).await?;
        self.trouble()
    }

    async fn purge(&self, older: Duration) -> Result<u64, StoreError> {
        self.store.purge(older).await
    }

    async fn failed(&self, relay: &str, failures: &[Failure]) -> Result<(), StoreError> {
        self.trouble()?;
        self.store.failed(relay, failures).await
    }

    async fn hold(&self, shards: &[Shard]) -> Result<u64, StoreError> {
        self.trouble()?;
        self.store.hold(shards).await
    }

    async fn keep(&self, relay: &str, asleep: bool, share: Share) -> Result<Kept, StoreError> {
        self.trouble()?;
        self.store.keep(relay, asleep, share).await
    }

    async fn release(&self, relay: &str, shards: &[Shard]) -> Result<(), StoreError> {
        self.trouble()?;
        self.store.release(relay, shards).await
    }

    async fn leave(&self, relay: &str) -> Result<(), StoreError> {
        self.trouble()?;
        self.store.leave(relay).await
    }

    async fn oldest(&self, shards: &[Shard]) -> Result<Option<Duration>, StoreError> {
        self.trouble()?;
        self.store.oldest(shards).await
    }

    async fn woken(&self) -> Result<(), StoreError> {
        self.trouble()?;
        self.store.woken().await
    }
}

#[tokio::test]
async fn a_database_that_fails_is_asked_again_and_nothing_is_forgotten() {
    let mut bed = Bed::new().await;
    let flaky: Arc<dyn RelayStore> = Arc::new(Flaky { store: Arc::clone(&bed.store), calls: AtomicUsize::new(1) });
    bed.put("a", 200).await;
    let running = start(&flaky, bed.dispatch());
    bed.becomes("", 0).await;
    bed.put("b", 200).await;
    bed.becomes("", 0).await;
    running.stop().await;
    assert_eq!((bed.ends("a"), bed.ends("b")), (200, 200), "once each: no relay died");
}
