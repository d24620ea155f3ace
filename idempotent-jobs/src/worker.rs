//! The worker: everything a program needs to run its jobs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::context::States;
use crate::engine::OnMissingKeys;
use crate::engine::probe::{Probe, Unwatched};
use crate::error::{Error, Fate};
use crate::health::Health;
use crate::kafka::OnGap;
use crate::retention::Retention;
use crate::serve::{self, Shutdown};

/// Runs every job linked into this program until SIGTERM or Ctrl-C, configured by the environment.
///
/// | variable | meaning |
/// |---|---|
/// | `DATABASE_URL` | `postgres://…` or `sqlite://…` |
/// | `KAFKA_BROKERS` | `host:port,host:port` |
/// | `KAFKA_GROUP_ID` | the consumer group |
/// | `KAFKA_X_Y` | the librdkafka property `x.y` |
///
/// # Errors
/// [`Error::Start`] lists every problem found before the first message was read;
/// [`Error::Stopped`] names the message that a job or the worker is told to stop at.
pub async fn run() -> Result<(), Error> {
    Worker::from_env().run().await
}

/// See [`Worker::builder`].
pub struct Worker;

impl Worker {
    /// A worker configured by code; nothing is read from the environment.
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder::default()
    }

    /// A worker configured by the environment, as [`run`] does it; later calls override.
    pub fn from_env() -> WorkerBuilder {
        WorkerBuilder { env: true, ..WorkerBuilder::default() }
    }
}

/// What a worker is made of. Problems are reported together by [`run`](Self::run).
#[must_use = "a worker does nothing until `run`"]
pub struct WorkerBuilder {
    pub(crate) env: bool,
    pub(crate) database_url: Option<String>,
    pub(crate) brokers: Option<String>,
    pub(crate) group_id: Option<String>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) states: States,
    pub(crate) concurrency: usize,
    pub(crate) shutdown: Option<Shutdown>,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) expected: Vec<String>,
    pub(crate) shared: Vec<String>,
    pub(crate) on_gap: OnGap,
    pub(crate) unknown_event: Fate,
    pub(crate) dead_letter_topic: Option<String>,
    pub(crate) missing_keys: OnMissingKeys,
    pub(crate) memory_budget: usize,
    pub(crate) relay: bool,
    pub(crate) relay_keep_sent: Option<Duration>,
    pub(crate) retention: Retention,
    pub(crate) retention_ahead: Duration,
    pub(crate) examine: bool,
    pub(crate) health: Health,
    pub(crate) probe: Arc<dyn Probe>,
}

impl Default for WorkerBuilder {
    fn default() -> Self {
        Self {
            env: false,
            database_url: None,
            brokers: None,
            group_id: None,
            properties: Vec::new(),
            states: States::default(),
            concurrency: 10,
            shutdown: None,
            shutdown_timeout: Duration::from_secs(25),
            only: None,
            expected: Vec::new(),
            shared: Vec::new(),
            on_gap: OnGap::default(),
            unknown_event: Fate::default(),
            dead_letter_topic: None,
            missing_keys: OnMissingKeys::default(),
            memory_budget: 64 << 20,
            relay: true,
            relay_keep_sent: None,
            retention: Retention::forever(),
            retention_ahead: Duration::ZERO,
            examine: true,
            health: Health::new(),
            probe: Arc::new(Unwatched),
        }
    }
}

impl WorkerBuilder {
    /// The database: `postgres://…` or `sqlite://…`. Its scheme names the handle jobs take.
    pub fn database_url(mut self, url: impl Into<String>) -> Self {
        self.database_url = Some(url.into());
        self
    }

    /// The Kafka brokers to begin with: `host:port,host:port`.
    pub fn brokers(mut self, brokers: impl Into<String>) -> Self {
        self.brokers = Some(brokers.into());
        self
    }

    /// The consumer group: processes of one group share the partitions.
    pub fn group_id(mut self, group: impl Into<String>) -> Self {
        self.group_id = Some(group.into());
        self
    }

    /// Any librdkafka property (`security.protocol`, `sasl.username`, `group.protocol`, …). Those
    /// that the promise rests on are refused when the worker starts.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// A value that jobs take as [`State<T>`](crate::State), one for each type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// How many jobs run side by side, each on a database connection of its own; 10 by default. Two
    /// connections more are for dead letters that are run again, and one for watermarks. SQLite has one writer and
    /// runs one.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs;
        self
    }

    /// Stops when this future resolves, instead of on SIGTERM and Ctrl-C.
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(signal));
        self
    }

    /// How long running jobs may take to finish after the signal; 25 s by default, below the
    /// 30 s that Kubernetes waits before it kills.
    pub fn shutdown_timeout(mut self, budget: Duration) -> Self {
        self.shutdown_timeout = budget;
        self
    }

    /// Runs only these of the linked jobs; by default all are run.
    ///
    /// Offsets belong to the group: workers of one group that read one topic must run the same
    /// of its jobs, or a job that one of them leaves out misses what that one reads.
    pub fn jobs<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.only.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// Jobs that must be linked into this program: a linker drops the jobs of a crate that
    /// nothing refers to, and a job that is not there reads nothing.
    pub fn expect_jobs<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.expected.extend(names.into_iter().map(Into::into));
        self
    }

    /// Lets other groups or topics use this job's name in the same database. Keys are then
    /// shared: what one of them did is a duplicate for the others. A dead letter is run again by workers that read
    /// its own topic by this job: redrive those of a topic before its job leaves that.
    pub fn share_job(mut self, name: impl Into<String>) -> Self {
        self.shared.push(name.into());
        self
    }

    /// What happens when Kafka deleted messages before this group read them: by default the
    /// worker stops and names them.
    pub fn on_gap(mut self, on_gap: OnGap) -> Self {
        self.on_gap = on_gap;
        self
    }

    /// What happens when a partition is to be read from where the database does not have all keys, so that
    /// messages might be done twice: by default the worker stops and names the offsets. Their keys were
    /// purged and the group's offset was set back behind them, or the offset was committed by a worker on
    /// another database.
    pub fn on_missing_keys(mut self, missing_keys: OnMissingKeys) -> Self {
        self.missing_keys = missing_keys;
        self
    }

    /// What becomes of a message whose event no job of its topic takes: by default it is a dead letter
    /// without a job.
    pub fn on_unknown_event(mut self, fate: Fate) -> Self {
        self.unknown_event = fate;
        self
    }

    /// Sends a copy of each dead letter to this topic, in which `{topic}` stands for the message's own:
    /// `"{topic}.dead"`. By default they are in the database alone, where they are in any case.
    ///
    /// A copy has the message's key, payload and headers, and behind them, as Spring Kafka writes them,
    /// `kafka_dlt-original-topic`, `-partition`, `-offset` and others. It is put into the [outbox](crate::outbox) in
    /// the transaction of the letter, so that it leaves by a relay, at least once, and waits there
    /// for a topic that does not exist yet. It is up to 10 KB larger than its message: one that is then too large for
    /// `message.max.bytes` of the relay or the topic is set aside in the outbox. A letter that dies again after a redrive is not sent again.
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter_topic = Some(topic.into());
        self
    }

    /// How many bytes of messages the worker may hold; 64 MiB by default, at least 8 MiB. One half
    /// is for what the Kafka client fetches ahead from each broker, the other for messages that
    /// wait for their jobs. A batch or message that is larger by itself is taken all the same.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Whether the worker sends what committed transactions put into the outbox; it does unless
    /// told otherwise. See [`Relay`](crate::Relay) for one in a process of its own. It holds up to
    /// 16 MiB besides the memory budget.
    pub fn relay(mut self, relay: bool) -> Self {
        self.relay = relay;
        self
    }

    /// Has the worker's relay keep records so long after they were sent, a year at most, so that
    /// they can be sent again with the same keys. By default they are forgotten. All relays of a
    /// database should be told the same: each keeps or forgets what it sends.
    pub fn relay_keep_sent(mut self, retention: Duration) -> Self {
        self.relay_keep_sent = Some(retention);
        self
    }

    /// How long keys are kept, by which messages are known again; forever by default.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// For tests that do not wait: the purge goes by a clock that is so much ahead.
    #[doc(hidden)]
    pub fn retention_ahead(mut self, ahead: Duration) -> Self {
        self.retention_ahead = ahead;
        self
    }

    /// Whether the worker has the [doctor](crate::doctor) look at its database, its topics and its group
    /// when it starts, and logs what is wrong; it does unless told otherwise. It looks in the background, for
    /// some 30 s at most, and stops nothing.
    pub fn examine(mut self, examine: bool) -> Self {
        self.examine = examine;
        self
    }

    /// Where the worker tells how it is, for [liveness and readiness](crate::health): one for each worker.
    pub fn health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// For tests that stop or kill a process at a named point.
    #[doc(hidden)]
    pub fn probe(mut self, probe: impl Probe) -> Self {
        self.probe = Arc::new(probe);
        self
    }

    /// Checks everything, then consumes until the shutdown signal.
    ///
    /// After the signal nothing new is started; running jobs finish within the shutdown
    /// timeout, their offsets are committed, the group is left, and the relay ends.
    ///
    /// # Errors
    /// [`Error::Start`] with every problem found; [`Error::Stopped`] for a message that cannot
    /// be processed and whose job says [`Fate::Stop`]; [`Error::ShutdownTimeout`] when running jobs had to be rolled back;
    /// [`Error::Kafka`] when the client cannot go on.
    pub async fn run(self) -> Result<(), Error> {
        serve::serve(self).await
    }
}
