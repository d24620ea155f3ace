//! What a message to be sent says of itself, and the record that it becomes.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::key::{Key, KeyValue, Part, outgoing};
use crate::message::{EVENT_HEADER, IDEMPOTENCY_KEY_HEADER, IDEMPOTENCY_KEY_PARTS_HEADER};
use crate::trace;

/// A payload that knows its topic, its dedup key and its place in the order.
///
/// Derived: `#[derive(JobMessage)] #[message(topic = "orders", key = "order_id, op", partition_by = "order_id")]`.
/// The key is computed from the message's own fields, so that a resend carries the same one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job message",
    label = "write `#[derive(JobMessage)]` with `#[message(topic = \"…\", key = \"…\")]` on it"
)]
pub trait JobMessage: Serialize + Sized + 'static {
    /// The topic it is sent to.
    const TOPIC: &'static str;
    /// The value of the `event` header, if it has one.
    const EVENT: Option<&'static str>;

    /// The parts of its key, fields only.
    fn key_parts() -> Vec<Part<Self>>;

    /// What the Kafka message key is made of: messages of equal values keep their order.
    /// `None`: the dedup key's own form.
    fn partition_by(&self) -> Option<KeyValue<'_>>;
}

/// What the type of a message says, for a job that takes it.
pub struct Sent<P> {
    pub(crate) topic: &'static str,
    pub(crate) event: Option<&'static str>,
    pub(crate) parts: Vec<Part<P>>,
}

/// What `P` says of itself.
pub fn message<P: JobMessage>() -> Sent<P> {
    Sent { topic: P::TOPIC, event: P::EVENT, parts: P::key_parts() }
}

/// Why a message cannot become a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("topic {topic}: {detail}")]
pub struct Unsendable {
    /// The topic it was for.
    pub(crate) topic: String,
    /// What is wrong, without the message's values.
    pub(crate) detail: String,
}

/// When a record may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Due {
    /// As soon as its transaction is committed.
    #[default]
    Now,
    /// Not before this time, by the clock of whoever said it.
    At(SystemTime),
    /// So long after it was enqueued, by the database's clock.
    After(Duration),
}

/// A message as a record to be enqueued, where its type alone does not say everything.
///
/// ```
/// # use idempotent_jobs::{JobMessage, Outgoing, Unsendable};
/// # #[derive(serde::Serialize, JobMessage)]
/// # #[message(topic = "reminders", key = "order_id")]
/// # struct Reminder { order_id: i64 }
/// # fn example() -> Result<(), Unsendable> {
/// let reminder = Outgoing::of(&Reminder { order_id: 1 })?
///     .header("tenant", "acme")
///     .after(std::time::Duration::from_secs(3600));
/// # let _ = reminder;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a record is stored by `enqueue`"]
pub struct Outgoing {
    pub(crate) topic: Cow<'static, str>,
    pub(crate) key: Key,
    pub(crate) key_parts: String,
    pub(crate) event: Option<&'static str>,
    pub(crate) partition_key: Option<String>,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) due: Due,
    pub(crate) ordered: bool,
}

impl Outgoing {
    /// A message with its key, event and Kafka message key, and with the [trace](crate::telemetry::set_propagator) it belongs to.
    ///
    /// # Errors
    /// The message cannot be encoded as JSON, or its key is not made of its own fields.
    pub fn of<M: JobMessage>(message: &M) -> Result<Self, Unsendable> {
        let unsendable = |detail: String| Unsendable { topic: M::TOPIC.to_owned(), detail };
        let payload = serde_json::to_vec(message)
            .map_err(|error| unsendable(format!("the message cannot be encoded: {error}")))?;
        Self::with(message, Some(payload))
    }

    /// A tombstone: the key of this message, and no payload. A compacted topic forgets what it
    /// had under the same Kafka message key.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn tombstone<M: JobMessage>(message: &M) -> Result<Self, Unsendable> {
        Self::with(message, None)
    }

    fn with<M: JobMessage>(message: &M, payload: Option<Vec<u8>>) -> Result<Self, Unsendable> {
        let (key, key_parts) = outgoing(&M::key_parts(), message)
            .map_err(|rejection| Unsendable { topic: M::TOPIC.to_owned(), detail: rejection.detail })?;
        let headers = trace::outgoing();
        if let Some(detail) = headers.iter().find_map(|(name, _)| refused(name)) {
            let detail = format!("{detail} (the propagator of this process gave it)");
            return Err(Unsendable { topic: M::TOPIC.to_owned(), detail });
        }
        let partition_key = message.partition_by().map_or_else(|| key.as_str().to_owned(), bare);
        Ok(Self {
            topic: Cow::Borrowed(M::TOPIC),
            key,
            key_parts,
            event: M::EVENT,
            partition_key: Some(partition_key),
            payload,
            headers,
            due: Due::Now,
            ordered: true,
        })
    }

    /// A further header; names may repeat, and keep their order. `idempotency-key`,
    /// `idempotency-key-parts` and `event` are made from the message, and refused when it is enqueued.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Not to be sent before this time, by this machine's clock; at once when it is over. A record
    /// that waits holds up nothing: later ones of its Kafka message key pass it. Beyond the year
    /// 9999 is never.
    pub fn deliver_at(mut self, time: SystemTime) -> Self {
        self.due = Due::At(time);
        self
    }

    /// Not to be sent before so long after it was enqueued, by the database's clock; see
    /// [`deliver_at`](Self::deliver_at). Beyond some 4,000 years is never.
    pub fn after(mut self, wait: Duration) -> Self {
        self.due = Due::After(wait);
        self
    }

    /// Need not keep the order of its Kafka message key: the transaction then waits for no other
    /// that enqueues it, but for one that enqueues the same dedup key, and the record for no earlier one.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// The topic it is for.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The dedup key, in its text form.
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// The JSON of the message; `None` is a tombstone.
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }

    /// Which of the locks that keep the order of commit it takes: the first byte of the digest
    /// of topic and Kafka message key.
    pub(crate) fn stripe(&self) -> u8 {
        let key = self.partition_key.as_deref().unwrap_or(self.key.as_str());
        Sha256::new().chain_update(self.topic.as_bytes()).chain_update([0]).chain_update(key).finalize()[0]
    }

    /// Bytes it occupies, roughly.
    pub(crate) fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 4).sum();
        let event = self.event.map_or(0, str::len);
        let payload = self.payload.as_ref().map_or(0, Vec::len);
        let partition_key = self.partition_key.as_ref().map_or(0, String::len);
        self.key.as_str().len() + self.key_parts.len() + partition_key + event + payload + headers + 100
    }
}

/// Shows where it goes, never what it says.
impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outgoing(topic {}, {:?})", self.topic, self.key)
    }
}

/// What can be enqueued: a message, or an [`Outgoing`] made of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be enqueued",
    label = "neither a reference to a job message nor an `Outgoing`",
    note = "write `enqueue(&message)` of a type with `#[derive(JobMessage)]`"
)]
pub trait IntoOutgoing {
    /// The record.
    ///
    /// # Errors
    /// As of [`Outgoing::of`].
    fn into_outgoing(self) -> Result<Outgoing, Unsendable>;
}

impl<M: JobMessage> IntoOutgoing for &M {
    fn into_outgoing(self) -> Result<Outgoing, Unsendable> {
        Outgoing::of(self)
    }
}

impl IntoOutgoing for Outgoing {
    fn into_outgoing(self) -> Result<Outgoing, Unsendable> {
        match self.headers.iter().find_map(|(name, _)| refused(name)) {
            None => Ok(self),
            Some(detail) => Err(Unsendable { topic: self.topic.into_owned(), detail }),
        }
    }
}

/// The records of many messages.
pub(crate) fn all<M: IntoOutgoing>(messages: impl IntoIterator<Item = M>) -> Result<Vec<Outgoing>, Unsendable> {
    messages.into_iter().map(IntoOutgoing::into_outgoing).collect()
}

/// Why a further header may not bear this name. Of several headers of a name a reader takes the last.
fn refused(name: &str) -> Option<String> {
    if [IDEMPOTENCY_KEY_HEADER, IDEMPOTENCY_KEY_PARTS_HEADER, EVENT_HEADER].contains(&name) {
        return Some(format!("the header `{name}` is made from the message's type and fields: leave it out"));
    }
    let broken = name.is_empty() || name.contains('\0');
    broken.then(|| "a header's name is empty or has a NUL in it: Kafka's clients cannot carry it".to_owned())
}

/// The value's own text: what other producers of the topic would use as the Kafka key.
fn bare(value: KeyValue<'_>) -> String {
    match value {
        KeyValue::Text(text) => text.into_owned(),
        KeyValue::Int(number) => number.to_string(),
        KeyValue::Uint(number) => number.to_string(),
        KeyValue::Bool(flag) => flag.to_string(),
    }
}
