//! The relay: a program of its own, or part of a worker.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::kafka::{Dispatch, Properties};
use crate::outbox::relay::{Terms, relay};
use crate::retry::Backoff;
use crate::serve::{Shutdown, asked_to_end};
use crate::store::open_relay;

/// See [`Relay::builder`].
///
/// A relay sends what committed transactions put into the outbox. Each worker has one; a service
/// that only enqueues needs one somewhere, in any process that reaches the database and Kafka. Any
/// number may run: they share the work, and what one that died had in flight is sent again, with
/// the same keys, by the others within some five seconds.
pub struct Relay;

impl Relay {
    /// A relay configured by code; nothing is read from the environment.
    pub fn builder() -> RelayBuilder {
        RelayBuilder::default()
    }

    /// A relay configured by `DATABASE_URL`, `KAFKA_BROKERS` and the other `KAFKA_…` variables;
    /// later calls override.
    pub fn from_env() -> RelayBuilder {
        RelayBuilder { env: true, ..RelayBuilder::default() }
    }
}

/// What a relay is made of. Problems are reported together by [`run`](Self::run).
#[derive(Default)]
#[must_use = "a relay does nothing until `run`"]
pub struct RelayBuilder {
    env: bool,
    database_url: Option<String>,
    properties: Properties,
    delivery_timeout: Option<Duration>,
    shutdown: Option<Shutdown>,
    terms: Terms,
}

impl RelayBuilder {
    /// The database with the outbox: `postgres://…` or `sqlite://…`.
    pub fn database_url(mut self, url: impl Into<String>) -> Self {
        self.database_url = Some(url.into());
        self
    }

    /// The Kafka brokers to begin with: `host:port,host:port`.
    pub fn brokers(mut self, brokers: impl Into<String>) -> Self {
        self.properties = self.properties.with_brokers(brokers);
        self
    }

    /// Any librdkafka property; those of consumers alone are ignored.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties = self.properties.set(name, value);
        self
    }

    /// How long one delivery may take, librdkafka's retries included, before the record is
    /// offered anew; 30 s unless set here or as `message.timeout.ms`.
    pub fn delivery_timeout(mut self, timeout: Duration) -> Self {
        self.delivery_timeout = Some(timeout);
        self
    }

    /// Keeps records so long after they were sent, in the table `sent`, so that they can be sent
    /// again with the same keys. By default they are forgotten.
    pub fn keep_sent(mut self, retention: Duration) -> Self {
        self.terms.keep_sent = Some(retention);
        self
    }

    /// Stops when this future resolves, instead of on SIGTERM and Ctrl-C.
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(signal));
        self
    }

    /// How long records in flight may take to be confirmed after the signal; 10 s by default.
    pub fn shutdown_timeout(mut self, budget: Duration) -> Self {
        self.terms.budget = budget;
        self
    }

    /// How many records, and bytes of them, the relay may hold; 10,000 and 16 MiB by default. The
    /// Kafka client has copies of those in flight.
    pub fn memory_budget(mut self, records: usize, bytes: usize) -> Self {
        (self.terms.rows, self.terms.bytes) = (records.max(1), bytes.max(1));
        self
    }

    /// The wait after a record was refused, doubling from `min` to `max`; a record is set aside
    /// after ten refusals. 1 s to 5 min by default.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.terms.refused = Backoff::new(min, max);
        self
    }

    /// Checks everything, then relays until the shutdown signal.
    ///
    /// After the signal nothing new is sent; what is in flight is waited for and marked, and the
    /// relay's part of the outbox is given to the others.
    ///
    /// # Errors
    /// [`Error::Start`] with every problem found. Neither a database nor brokers that go away
    /// later end a relay: it goes on when they are back.
    pub async fn run(mut self) -> Result<(), Error> {
        let shutdown = match self.shutdown.take() {
            Some(shutdown) => shutdown,
            None => asked_to_end().map_err(|error| Error::Start(vec![format!("signals cannot be heard: {error}")]))?,
        };
        let properties = if self.env { Properties::from_env().overridden(self.properties) } else { self.properties };
        properties.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let url = self.database_url.or_else(|| self.env.then(|| std::env::var("DATABASE_URL").ok()).flatten());
        let mut problems = Vec::new();
        let store = match url {
            Some(url) => open_relay(&url).await.map_err(|error| format!("the database cannot be used: {error}")),
            None => Err("no database: set `DATABASE_URL`, or call `Relay::builder().database_url(…)`".to_owned()),
        };
        let store = store.map_err(|problem| problems.push(problem)).ok();
        let dispatch = Dispatch::new(&properties, self.delivery_timeout).map_err(|more| problems.extend(more)).ok();
        let (Some(store), Some(dispatch)) = (store, dispatch) else { return Err(Error::Start(problems)) };
        let budget = self.terms.budget;
        relay(store, dispatch, Arc::default(), self.terms, async move {
            shutdown.await;
            budget
        })
        .await;
        Ok(())
    }
}
