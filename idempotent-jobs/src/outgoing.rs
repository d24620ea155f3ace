//! What a message to be sent says of itself.

use serde::Serialize;

use crate::key::{KeyValue, Part};

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
