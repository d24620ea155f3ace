//! What was read from Kafka.

use std::fmt;
use std::sync::Arc;

/// The header that carries a message's dedup key.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// The header that names the fields the dedup key was made of, `order_id,op`: whoever is keyed by others
/// knows by it that the two keys need not be equal.
pub const IDEMPOTENCY_KEY_PARTS_HEADER: &str = "idempotency-key-parts";
/// The header that says which event a message is.
pub const EVENT_HEADER: &str = "event";

/// Where a message lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition, from 0.
    pub partition: i32,
    /// The offset, from 0.
    pub offset: i64,
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}, partition {}, offset {}", self.topic, self.partition, self.offset)
    }
}

/// A message as it was read, owned and unchanged.
#[derive(Clone)]
pub struct Message {
    /// Where it lies.
    pub coordinates: Coordinates,
    /// The Kafka message key; null and empty differ.
    pub key: Option<Vec<u8>>,
    /// The payload; `None` is a tombstone, empty is not.
    pub payload: Option<Vec<u8>>,
    /// The headers in wire order, repeated ones included.
    pub headers: Headers,
    /// Milliseconds since the Unix epoch, as the producer or the broker set it.
    pub timestamp: Option<i64>,
}

impl Message {
    /// Bytes it occupies in memory, roughly: what lanes are bounded by.
    pub(crate) fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len) + 48).sum();
        size_of::<Self>() + self.key.as_ref().map_or(0, Vec::len) + self.payload.as_ref().map_or(0, Vec::len) + headers
    }
}

/// Shows where it lies, never what it says.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.coordinates)
    }
}

/// The headers of a message, in wire order. As an argument of a job it is an extractor.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Arc<Vec<(String, Option<Vec<u8>>)>>);

impl Headers {
    /// Headers in the given order; names may repeat, values may be null.
    pub fn new(headers: Vec<(String, Option<Vec<u8>>)>) -> Self {
        Self(Arc::new(headers))
    }

    /// The value of the last header of that name: a later one overrides an earlier one, with null too.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|(n, _)| n == name).and_then(|(_, value)| value.as_deref())
    }

    /// Every header in wire order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }
}

/// Shows the names, never the values.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}
