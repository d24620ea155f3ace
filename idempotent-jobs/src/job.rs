//! A declared job, and the one narrow waist between the macro and the runtime.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use crate::codec::{self, KeyField};
use crate::context::{Context, Handle, Isolation, IsolationLevels, States};
use crate::error::{Fate, JobResult, Reason, Rejection};
use crate::fingerprint::{Fingerprint, Scheme};
use crate::key::{Key, Part};
use crate::message::Message;
use crate::outgoing::Sent;
use crate::retry::{Backoff, RETRIES};

/// A job's running attempt, as the generated block returns it.
pub type Running<'a> = Pin<Box<dyn Future<Output = JobResult> + Send + 'a>>;

/// What a job declares, without its types.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Unique among the jobs of one database.
    pub name: &'static str,
    /// The topic it reads.
    pub topic: &'static str,
    /// The one event it takes; `None` takes all.
    pub event: Option<&'static str>,
    /// Names and kinds of the key's parts: `order_id:number,op:text`.
    pub key_form: String,
    /// What must not differ between two messages of one key.
    pub scheme: Scheme,
    /// Attempts after the first before the message is given up.
    pub retries: u32,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// The whole attempt, from begin to the answer of commit.
    pub timeout: Duration,
    /// The transaction's isolation.
    pub isolation: Isolation,
    /// Which messages wait for each other.
    pub ordering: Ordering,
    /// How many messages one transaction may serve.
    pub grouping: Grouping,
    /// What becomes of messages that cannot be processed.
    pub fates: Fates,
}

/// What becomes of a job's messages that cannot be processed, by what is wrong with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// Their key was used with other content.
    pub conflict: Fate,
    /// They have no payload.
    pub tombstone: Fate,
    /// Anything else: attempts used up, a terminal error, a payload or key that cannot be read.
    pub exhausted: Fate,
}

impl Fates {
    /// What becomes of a message that broke this rule.
    pub fn of(self, reason: Reason) -> Fate {
        match reason {
            Reason::Conflict => self.conflict,
            Reason::Tombstone => self.tombstone,
            _ => self.exhausted,
        }
    }
}

/// Which messages of a topic wait for each other, and are given to jobs in the order of the log.
///
/// Declared by each job; jobs of one topic share its lanes, so the strictest of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Ordering {
    /// None waits.
    None,
    /// Those of one Kafka message key; a message without a key waits for none. The default.
    #[default]
    Key,
    /// Those of one partition, whatever their keys.
    Partition,
}

/// How many messages one transaction of a job may serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// One.
    #[default]
    Single,
    /// Up to so many, each given to the handler by itself.
    Shared(usize),
    /// Up to so many, given to the handler at once.
    Batch(usize),
}

impl Grouping {
    /// The most messages of one transaction.
    pub fn limit(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Shared(limit) | Self::Batch(limit) => limit.max(1),
        }
    }
}

/// A message made ready for a job.
pub struct Prepared {
    /// Its dedup key.
    pub key: Key,
    /// Its fingerprint by the job's scheme.
    pub fingerprint: Fingerprint,
    /// The decoded payload, of the job's own type.
    pub payload: Payload,
}

/// A decoded payload of a type only its job knows.
pub type Payload = Box<dyn Any + Send>;

/// A declared job with its payload's type erased, run with handles of type `H`.
#[async_trait]
pub trait Job<H>: Send + Sync {
    /// What it declares.
    fn spec(&self) -> &Spec;
    /// What it needs of the worker: one sentence for each thing that is missing.
    fn check(&self, states: &States) -> Vec<String>;
    /// Decodes, and computes key and fingerprint.
    fn prepare(&self, message: &Message) -> Result<Prepared, Rejection>;
    /// Enters the handler; that of a [batch](Grouping::Batch) job with this message alone.
    async fn run(&self, tx: &mut H, payload: Payload, context: &Context) -> JobResult;
    /// Enters the handler of a [batch](Grouping::Batch) job with all of these messages, each with
    /// its context; there is at least one. Other jobs are never asked.
    async fn run_batch(&self, tx: &mut H, payloads: Vec<Payload>, contexts: Vec<Context>) -> JobResult;
}

/// What a job can be sent: decoded by serde, owned, and movable between threads.
///
/// Implemented by itself for every such type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the payload of a job",
    label = "write `#[derive(serde::Deserialize)]` on this type",
    note = "a job takes its handle, then its payload, then extractors; a payload is decoded by serde, owns its data and is `Send`"
)]
pub trait JobPayload: DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<P: DeserializeOwned + Send + 'static> JobPayload for P {}

/// The handler as the generated block calls it.
pub type Entry<H, P> = for<'a> fn(&'a mut H, P, &'a Context) -> Running<'a>;

/// The handler of a batch job as the generated block calls it: each payload has a context.
pub type BatchEntry<H, P> = for<'a> fn(&'a mut H, Vec<P>, &'a [Context]) -> Running<'a>;

enum Handler<H, P> {
    One(Entry<H, P>),
    Batch(BatchEntry<H, P>),
}

/// An extractor's [`check`](crate::Extract::check): what it misses, in one sentence.
pub type Check = fn(&States) -> Result<(), String>;

/// A job under declaration, its types still known. Built by generated code only.
///
/// Its methods bound neither type: [`register`](crate::registry::register) does so once, so that
/// a wrong type is one error and not one at every call.
pub struct Declaration<H, P> {
    spec: Spec,
    parts: Vec<Part<P>>,
    key_fields: Vec<KeyField>,
    checks: Vec<Check>,
    handler: Handler<H, P>,
}

impl<H, P> Declaration<H, P> {
    /// A job with every option at its default.
    pub fn new(name: &'static str, topic: &'static str, entry: Entry<H, P>) -> Self {
        Self::of(name, topic, Grouping::Single, Handler::One(entry))
    }

    /// A job that is given up to `limit` messages at once.
    pub fn batch(name: &'static str, topic: &'static str, limit: usize, entry: BatchEntry<H, P>) -> Self {
        Self::of(name, topic, Grouping::Batch(limit), Handler::Batch(entry))
    }

    /// A job that takes topic and key from its payload's [`JobMessage`](crate::JobMessage), and
    /// its event if that has one.
    pub fn of_message(name: &'static str, message: Sent<P>, entry: Entry<H, P>) -> Self {
        Self::new(name, message.topic, entry).declared_by(message)
    }

    /// A job that does both.
    pub fn batch_of_message(name: &'static str, message: Sent<P>, limit: usize, entry: BatchEntry<H, P>) -> Self {
        Self::batch(name, message.topic, limit, entry).declared_by(message)
    }

    fn of(name: &'static str, topic: &'static str, grouping: Grouping, handler: Handler<H, P>) -> Self {
        let spec = Spec {
            name,
            topic,
            event: None,
            key_form: String::new(),
            scheme: Scheme::new(&[]),
            retries: RETRIES,
            backoff: Backoff::default(),
            timeout: Duration::from_secs(30),
            isolation: Isolation::default(),
            ordering: Ordering::default(),
            grouping,
            fates: Fates::default(),
        };
        Self { spec, parts: Vec::new(), key_fields: Vec::new(), checks: Vec::new(), handler }
    }

    fn declared_by(mut self, message: Sent<P>) -> Self {
        self.spec.event = message.event;
        message.parts.into_iter().fold(self, Self::key)
    }

    /// Adds a part to the key.
    #[must_use]
    pub fn key(mut self, part: Part<P>) -> Self {
        let comma = if self.parts.is_empty() { "" } else { "," };
        self.spec.key_form += &format!("{comma}{}:{}", part.name, part.kind);
        self.parts.push(part);
        self
    }

    /// Takes only messages of this event.
    #[must_use]
    pub fn event(mut self, event: &'static str) -> Self {
        self.spec.event = Some(event);
        self
    }

    /// Compares only these wire paths between two messages of one key.
    #[must_use]
    pub fn compare(mut self, paths: &[&str]) -> Self {
        self.spec.scheme = Scheme::new(paths);
        self
    }

    /// Attempts after the first.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.spec.retries = retries;
        self
    }

    /// The waits between attempts, in milliseconds.
    #[must_use]
    pub fn backoff(mut self, min_ms: u64, max_ms: u64) -> Self {
        self.spec.backoff = Backoff::new(Duration::from_millis(min_ms), Duration::from_millis(max_ms));
        self
    }

    /// The budget of an attempt, in milliseconds.
    #[must_use]
    pub fn timeout(mut self, ms: u64) -> Self {
        self.spec.timeout = Duration::from_millis(ms);
        self
    }

    /// The transaction's isolation, where the database has a choice.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self
    where
        H: IsolationLevels,
    {
        self.spec.isolation = isolation;
        self
    }

    /// Which messages wait for each other.
    #[must_use]
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.spec.ordering = ordering;
        self
    }

    /// Lets up to `limit` messages share a transaction, each given to the handler by itself. Those
    /// of a batch job share one already.
    #[must_use]
    pub fn shared_tx(mut self, limit: usize) -> Self {
        self.spec.grouping = Grouping::Shared(limit);
        self
    }

    /// What becomes of messages that are given up.
    #[must_use]
    pub fn on_exhausted(mut self, fate: Fate) -> Self {
        self.spec.fates.exhausted = fate;
        self
    }

    /// What becomes of messages whose key was used with other content.
    #[must_use]
    pub fn on_conflict(mut self, fate: Fate) -> Self {
        self.spec.fates.conflict = fate;
        self
    }

    /// What becomes of messages without a payload.
    #[must_use]
    pub fn on_tombstone(mut self, fate: Fate) -> Self {
        self.spec.fates.tombstone = fate;
        self
    }

    /// A further argument of the handler, by its extractor's check.
    #[must_use]
    pub fn argument(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// The finished job, with the payload's type erased.
    pub fn erase(mut self) -> Arc<dyn Job<H>>
    where
        H: Handle,
        P: JobPayload,
    {
        self.key_fields = self.parts.iter().filter_map(KeyField::of).collect();
        Arc::new(self)
    }
}

#[async_trait]
impl<H: Handle, P: JobPayload> Job<H> for Declaration<H, P> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn check(&self, states: &States) -> Vec<String> {
        self.checks.iter().filter_map(|check| check(states).err()).collect()
    }

    fn prepare(&self, message: &Message) -> Result<Prepared, Rejection> {
        let document = codec::scan(codec::payload(message)?)?;
        let payload: P = codec::decode(&document, &self.key_fields)?;
        let key = Key::compute(&self.parts, &payload, &message.headers)?;
        let fingerprint = self.spec.scheme.of(&document)?;
        Ok(Prepared { key, fingerprint, payload: Box::new(payload) })
    }

    async fn run(&self, tx: &mut H, payload: Payload, context: &Context) -> JobResult {
        match self.handler {
            Handler::One(entry) => entry(tx, own(payload), context).await,
            Handler::Batch(entry) => entry(tx, vec![own(payload)], slice::from_ref(context)).await,
        }
    }

    async fn run_batch(&self, tx: &mut H, payloads: Vec<Payload>, contexts: Vec<Context>) -> JobResult {
        let Handler::Batch(entry) = self.handler else { unreachable!("only a batch job is given a batch") };
        entry(tx, payloads.into_iter().map(own).collect(), &contexts).await
    }
}

/// The payload with its type again.
fn own<P: 'static>(payload: Payload) -> P {
    *payload.downcast().expect("a payload is run by the job that prepared it")
}

#[cfg(test)]
mod tests;
