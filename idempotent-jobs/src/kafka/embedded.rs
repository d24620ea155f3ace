//! A broker inside the process, for trying out and for tests: librdkafka's own.
//!
//! It keeps 5 MiB or 100,000 batches a partition, whichever comes first, and then forgets the
//! oldest without a word. Whoever sends through [`Broker::producer`] cannot outrun the reader.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer as _};
use tokio::sync::Mutex as AsyncMutex;

use super::checks::Reader;
use super::native::GroupTimes;
use super::send_error::{SendError, SendErrorKind};
use super::{Delivery, Producer, Properties, Record, Topics, native};
use crate::error::Error;
use crate::outgoing::JobMessage;

/// The cluster, as the broker's thread lends it.
#[doc(hidden)]
pub type Cluster<'a> = MockCluster<'a, DefaultProducerContext>;
type Order = Box<dyn FnOnce(&Cluster<'_>) + Send>;

/// A running broker. It serves this process and others on the same machine, and ends when dropped.
#[derive(Debug)]
pub struct Broker {
    servers: String,
    topics: Topics,
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    /// Starts a broker with these topics and their numbers of partitions.
    ///
    /// # Errors
    /// [`Error::Start`] says why librdkafka could not.
    pub fn start(topics: &[(&str, i32)]) -> Result<Self, Error> {
        Self::open(topics).map_err(|error| Error::Start(vec![format!("the embedded broker cannot be made: {error}")]))
    }

    fn open(topics: &[(&str, i32)]) -> Result<Self, String> {
        let topics: Topics = topics.iter().map(|(name, partitions)| ((*name).to_owned(), *partitions)).collect();
        let (orders, taken) = mpsc::channel::<Order>();
        let (started, ready) = mpsc::channel();
        let wanted = topics.clone();
        let thread = std::thread::Builder::new()
            .name("idempotent-jobs-broker".to_owned())
            .spawn(move || serve(&wanted, &started, &taken))
            .map_err(|error| error.to_string())?;
        let servers = ready.recv().map_err(|_| "the broker's thread ended".to_owned())??;
        Ok(Self { servers, topics, orders: Some(orders), thread: Some(thread) })
    }

    /// The address for `KAFKA_BROKERS`, also for other processes on this machine.
    pub fn bootstrap_servers(&self) -> &str {
        &self.servers
    }

    /// A producer that waits while more is unread by `reader`, a consumer group, than the broker
    /// keeps. Send through one such producer only: it counts its own records.
    ///
    /// # Errors
    /// [`Error::Start`] with every property that is refused.
    pub fn producer(&self, reader: &str) -> Result<PacedProducer, Error> {
        let properties = Properties::new(&self.servers).group(reader);
        let producer = Producer::builder().properties(properties.clone()).build()?;
        let reader = Arc::new(Reader::open(&properties).map_err(Error::Start)?);
        let pace = Pace { reader, topics: self.topics.clone(), ledger: Mutex::default(), line: AsyncMutex::default() };
        Ok(PacedProducer { producer, pace: Arc::new(pace) })
    }

    /// Lends the cluster to make faults with.
    #[doc(hidden)]
    pub fn with<T: Send + 'static>(&self, order: impl FnOnce(&Cluster<'_>) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        let order: Order = Box::new(move |cluster| _ = answer.send(order(cluster)));
        self.orders.as_ref()?.send(order).ok()?;
        answered.recv().ok()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The cluster's handle is bound to one thread, so it lives on its own.
fn serve(topics: &Topics, started: &mpsc::Sender<Result<String, String>>, orders: &mpsc::Receiver<Order>) {
    let host = ClientConfig::new().set("test.mock.num.brokers", "1").create::<BaseProducer>();
    let opened = host.as_ref().map_err(ToString::to_string).and_then(|host| open(host, topics));
    let Ok(cluster) = &opened else {
        let _ = started.send(opened.map(|_| String::new()));
        return;
    };
    if started.send(Ok(cluster.bootstrap_servers())).is_ok() {
        orders.iter().for_each(|order| order(cluster));
    }
}

/// On one machine a member that was killed is replaced soon; librdkafka's own session here is 30 s.
const TIMES: GroupTimes =
    GroupTimes { delay: Duration::ZERO, heartbeat: Duration::from_millis(200), session: Duration::from_secs(3) };

fn open<'a>(host: &'a BaseProducer, topics: &Topics) -> Result<Cluster<'a>, String> {
    let cluster = host.client().mock_cluster().ok_or("librdkafka made no cluster")?;
    native::group_times(host.client().native_ptr(), &TIMES);
    for (topic, partitions) in topics {
        cluster.create_topic(topic, *partitions, 1).map_err(|error| format!("topic `{topic}`: {error}"))?;
    }
    Ok(cluster)
}

/// Unread bytes and records of all partitions together: below what the broker keeps of one, with
/// a margin, so that it holds however the records fall. Its limits are 5 MiB and 100,000.
const BYTES: usize = 4 << 20;
const RECORDS: usize = 50_000;
const LOOK: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A producer for [`Broker`] that does not outrun the reader.
#[derive(Clone)]
pub struct PacedProducer {
    producer: Producer,
    pace: Arc<Pace>,
}

impl PacedProducer {
    /// Sends a message once the reader has caught up enough; see [`Producer::send`].
    ///
    /// # Errors
    /// As of [`Producer::send`]; a record that is larger than the broker can keep is refused.
    pub async fn send<M: JobMessage>(&self, message: &M) -> Result<Delivery, SendError> {
        self.send_record(Record::of(message)?).await
    }

    /// Sends a record as it stands.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    #[doc(hidden)]
    pub async fn send_record(&self, record: Record) -> Result<Delivery, SendError> {
        let (topic, size) = (record.topic.clone(), record.size());
        let refused = |kind, detail: String| SendError::new(&record.topic, &record.key_hash, kind, detail);
        if size > BYTES {
            let detail = format!("{size} bytes are more than the embedded broker can keep ({BYTES}): use a real Kafka");
            return Err(refused(SendErrorKind::TooLarge, detail));
        }
        self.pace.room(size).await.map_err(|detail| refused(SendErrorKind::NotSent, detail))?;
        let sent = self.producer.send_record(record).await;
        match &sent {
            Ok(delivery) => self.pace.ledger().land((topic, delivery.partition), delivery.offset, size),
            // What may be in the log keeps its place in the ledger; so does a future that is dropped.
            Err(error) if !error.maybe_delivered() => self.pace.ledger().release(size),
            Err(_) => {}
        }
        sent
    }
}

struct Pace {
    reader: Arc<Reader>,
    topics: Topics,
    ledger: Mutex<Ledger>,
    line: AsyncMutex<()>,
}

/// What was sent and is not known to be read.
#[derive(Debug, Default)]
struct Ledger {
    bytes: usize,
    records: usize,
    landed: BTreeMap<(String, i32), VecDeque<(i64, usize)>>,
}

impl Ledger {
    fn reserve(&mut self, size: usize) -> bool {
        let room = self.bytes + size <= BYTES && self.records < RECORDS;
        if room {
            self.bytes += size;
            self.records += 1;
        }
        room
    }

    fn release(&mut self, size: usize) {
        self.bytes -= size;
        self.records -= 1;
    }

    /// Reports come in the order of offsets, but not the tasks that were waiting for them.
    fn land(&mut self, at: (String, i32), offset: i64, size: usize) {
        let landed = self.landed.entry(at).or_default();
        let place = landed.partition_point(|(other, _)| *other < offset);
        landed.insert(place, (offset, size));
    }

    fn read_up_to(&mut self, at: &(String, i32), committed: i64) {
        while let Some(landed) = self.landed.get_mut(at)
            && let Some((offset, size)) = landed.front().copied()
            && offset < committed
        {
            landed.pop_front();
            self.release(size);
        }
    }
}

impl Pace {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room in line, and asks the broker how far the reader is while there is none.
    async fn room(self: &Arc<Self>, size: usize) -> Result<(), String> {
        let _first_in_line = self.line.lock().await;
        while !self.ledger().reserve(size) {
            let pace = Arc::clone(self);
            let look = tokio::task::spawn_blocking(move || pace.reader.committed(&pace.topics, LOOK)).await;
            let offsets = look.map_err(|error| error.to_string())?.map_err(|problems| problems.join("; "))?;
            {
                let mut ledger = self.ledger();
                offsets.iter().for_each(|(at, offset)| ledger.read_up_to(at, *offset));
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Ok(())
    }
}
