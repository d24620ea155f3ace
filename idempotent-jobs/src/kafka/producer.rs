//! Sends records and waits for their delivery reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};
use tracing::{error, warn};

use super::log::{self, Sparing};
use super::send_error::{SendError, SendErrorKind, kind_of};
use super::{Properties, after, native};
use crate::error::Error;
use crate::message::{EVENT_HEADER, IDEMPOTENCY_KEY_HEADER, IDEMPOTENCY_KEY_PARTS_HEADER};
use crate::outgoing::{JobMessage, Outgoing};

/// Where a record lies, as the brokers confirmed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Records that were not confirmed when the budget ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{records} record(s) are not confirmed: send their messages again, they carry the same keys")]
#[non_exhaustive]
pub struct Undelivered {
    /// How many.
    pub records: usize,
}

/// What will be written.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The topic.
    pub topic: String,
    /// The Kafka message key: records of equal keys keep their order.
    pub key: Option<Vec<u8>>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// The headers, in wire order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// What errors show instead of the key.
    pub key_hash: String,
}

impl Record {
    /// Encodes a message with its key, event and partition.
    ///
    /// # Errors
    /// The message cannot be encoded, or has no key.
    pub fn of<M: JobMessage>(message: &M) -> Result<Self, SendError> {
        let outgoing = Outgoing::of(message)
            .map_err(|error| SendError::new(M::TOPIC, "-", SendErrorKind::Invalid, error.detail))?;
        Ok(outgoing.into())
    }

    /// Bytes it will occupy, roughly.
    pub fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 4).sum();
        self.key.as_ref().map_or(0, Vec::len) + self.payload.as_ref().map_or(0, Vec::len) + headers + 100
    }
}

impl From<Outgoing> for Record {
    fn from(outgoing: Outgoing) -> Self {
        let Outgoing { topic, key, key_parts, event, partition_key, payload, headers, .. } = outgoing;
        let ours = own_headers(key.as_str(), key_parts, event);
        Self {
            topic: topic.into_owned(),
            key: partition_key.map(String::into_bytes),
            payload,
            key_hash: key.hash(),
            headers: ours.into_iter().chain(headers).collect(),
        }
    }
}

/// The headers that a record's key and event travel in.
fn own_headers(key: &str, parts: String, event: Option<&str>) -> Vec<(String, Option<Vec<u8>>)> {
    let key = (IDEMPOTENCY_KEY_HEADER.to_owned(), Some(key.as_bytes().to_vec()));
    let parts = (IDEMPOTENCY_KEY_PARTS_HEADER.to_owned(), Some(parts.into_bytes()));
    let event = event.map(|event| (EVENT_HEADER.to_owned(), Some(event.as_bytes().to_vec())));
    [key, parts].into_iter().chain(event).collect()
}

/// Sets a producer up.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ProducerBuilder {
    env: bool,
    properties: Properties,
    delivery_timeout: Option<Duration>,
    queue_timeout: Option<Duration>,
}

impl ProducerBuilder {
    /// Takes `KAFKA_BROKERS` and the other `KAFKA_…` variables too; what is set here overrides them.
    pub fn with_env(mut self) -> Self {
        self.env = true;
        self
    }

    /// The brokers, `host:port` separated by commas.
    pub fn brokers(mut self, brokers: impl Into<String>) -> Self {
        self.properties = self.properties.with_brokers(brokers);
        self
    }

    /// A librdkafka property.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties = self.properties.set(name, value);
        self
    }

    /// All properties, brokers included.
    #[doc(hidden)]
    pub fn properties(mut self, properties: Properties) -> Self {
        self.properties = properties;
        self
    }

    /// How long a delivery may take, retries included, in whole milliseconds; 30 s unless set
    /// here or as `message.timeout.ms`. Zero is refused.
    pub fn delivery_timeout(mut self, timeout: Duration) -> Self {
        self.delivery_timeout = Some(timeout);
        self
    }

    /// How long `send` waits for room in the local queue; 30 s unless set.
    pub fn queue_timeout(mut self, timeout: Duration) -> Self {
        self.queue_timeout = Some(timeout);
        self
    }

    /// Makes the producer. It connects in the background.
    ///
    /// # Errors
    /// [`Error::Start`] with every property that is missing or refused, one sentence each.
    pub fn build(self) -> Result<Producer, Error> {
        let properties = if self.env { Properties::from_env().overridden(self.properties) } else { self.properties };
        for warning in properties.warnings() {
            warn!("{warning}");
        }
        let config = properties.producer(self.delivery_timeout).map_err(Error::Start)?;
        let waiting = Arc::new(Waiting::default());
        let reports = Reports { waiting: Arc::clone(&waiting), trouble: Sparing::new(Duration::from_secs(30)) };
        let client = config
            .create_with_context(reports)
            .map_err(|error| Error::Start(vec![format!("the Kafka producer cannot be made: {error}")]))?;
        let queue_timeout = self.queue_timeout.unwrap_or(Duration::from_secs(30));
        Ok(Producer { inner: Arc::new(Inner { client, waiting, queue_timeout }) })
    }
}

/// Sends messages; cheap to clone, to be shared by every task.
///
/// Call [`close`](Self::close) before the program ends: when the last clone is dropped, records
/// that are still queued are lost, and an error is logged that counts them.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<Inner>,
}

struct Inner {
    client: ThreadedProducer<Reports>,
    waiting: Arc<Waiting>,
    queue_timeout: Duration,
}

/// Records handed to librdkafka and not reported yet.
#[derive(Default)]
struct Waiting {
    records: AtomicUsize,
    room: Notify,
    none: Notify,
}

impl Waiting {
    fn count(&self) -> usize {
        self.records.load(Ordering::SeqCst)
    }

    fn add(&self) {
        self.records.fetch_add(1, Ordering::SeqCst);
    }

    fn remove(&self) {
        if self.records.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.none.notify_waiters();
        }
    }
}

impl Producer {
    /// Begins a producer.
    pub fn builder() -> ProducerBuilder {
        ProducerBuilder::default()
    }

    /// A producer from `KAFKA_BROKERS` and the other `KAFKA_…` variables.
    ///
    /// # Errors
    /// [`Error::Start`] with every property that is missing or refused, one sentence each.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().with_env().build()
    }

    /// Sends a message and waits until every in-sync replica has it.
    ///
    /// Its key is computed from its own fields and travels in a header, so that sending it again
    /// after an error, or after a crash, makes the job run once all the same. When the local
    /// queue is full, this waits for room. Dropping the future does not call back a record that
    /// is queued already.
    ///
    /// # Errors
    /// [`SendError::maybe_delivered`] says whether the record may be in the log nevertheless.
    pub async fn send<M: JobMessage>(&self, message: &M) -> Result<Delivery, SendError> {
        self.send_record(Record::of(message)?).await
    }

    /// Sends a record as it stands; see [`send`](Self::send).
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    #[doc(hidden)]
    pub async fn send_record(&self, record: Record) -> Result<Delivery, SendError> {
        let failed = |kind, detail: String| SendError::new(&record.topic, &record.key_hash, kind, detail);
        let report = self.enqueue(&record).await.map_err(|error| failed(kind_of(&error, true), error.to_string()))?;
        match report.await {
            Ok(Ok(delivery)) => Ok(delivery),
            Ok(Err((kind, detail))) => Err(failed(kind, detail)),
            Err(_) => Err(failed(SendErrorKind::MaybeDelivered, "the producer was dropped".to_owned())),
        }
    }

    /// Queues the record, waiting for room until the deadline.
    async fn enqueue(&self, record: &Record) -> Result<oneshot::Receiver<Report>, KafkaError> {
        let deadline = Instant::from_std(after(self.inner.queue_timeout));
        loop {
            let room = self.inner.waiting.room.notified();
            match self.inner.offer(record) {
                Err(KafkaError::MessageProduction(Code::QueueFull)) if Instant::now() < deadline => {
                    // Room is looked for again in any case: another record may have taken it.
                    let again = deadline.min(Instant::now() + Duration::from_millis(100));
                    let _ = timeout_at(again, room).await;
                }
                answer => return answer,
            }
        }
    }

    /// Waits until no record is unconfirmed, for at most `budget`.
    ///
    /// # Errors
    /// How many are unconfirmed still.
    pub async fn flush(&self, budget: Duration) -> Result<(), Undelivered> {
        let deadline = Instant::from_std(after(budget));
        loop {
            let mut none = std::pin::pin!(self.inner.waiting.none.notified());
            none.as_mut().enable();
            match self.inner.waiting.count() {
                0 => return Ok(()),
                records if timeout_at(deadline, none).await.is_err() => return Err(Undelivered { records }),
                _ => {}
            }
        }
    }

    /// Flushes, and gives this clone up.
    ///
    /// # Errors
    /// How many records are unconfirmed; with the last clone they are lost.
    pub async fn close(self, budget: Duration) -> Result<(), Undelivered> {
        self.flush(budget).await
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("unconfirmed", &self.inner.waiting.count()).finish_non_exhaustive()
    }
}

impl Inner {
    fn offer(&self, record: &Record) -> Result<oneshot::Receiver<Report>, KafkaError> {
        let (sender, receiver) = oneshot::channel();
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: value.as_ref() });
        }
        let mut base = BaseRecord::<[u8], [u8], _>::with_opaque_to(&record.topic, Box::new(sender)).headers(headers);
        base.key = record.key.as_deref();
        base.payload = record.payload.as_deref();
        self.waiting.add();
        self.client.send(base).map(|()| receiver).map_err(|(error, _)| {
            self.waiting.remove();
            error
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let records = self.waiting.count();
        if records > 0 {
            error!(
                records,
                "the producer is dropped with unconfirmed records, which are lost: call `close` and send their messages again"
            );
        }
    }
}

type Report = Result<Delivery, (SendErrorKind, String)>;

/// Turns delivery reports into answers.
struct Reports {
    waiting: Arc<Waiting>,
    trouble: Sparing,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log::pass_on(level, facility, text);
    }

    fn error(&self, _: KafkaError, reason: &str) {
        if self.trouble.due() {
            warn!("Kafka: {reason} (the same is not said again for 30 s)");
        }
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<oneshot::Sender<Report>>;

    fn delivery(&self, result: &DeliveryResult<'_>, answer: Self::DeliveryOpaque) {
        let report = match result {
            Ok(message) => Ok(Delivery { partition: message.partition(), offset: message.offset() }),
            Err((error, message)) => Err((kind_of(error, native::never_sent(message)), error.to_string())),
        };
        // Nobody waits when the future was dropped.
        let _ = answer.send(report);
        self.waiting.remove();
        self.waiting.room.notify_one();
    }
}
