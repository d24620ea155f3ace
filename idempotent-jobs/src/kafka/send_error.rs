//! Why a record was not seen to be delivered, and whether it may be in the log all the same.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// What became of a record that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// The message could not be encoded, or has no key. Nothing was sent.
    Invalid,
    /// Larger than the producer or the topic takes. Nothing was written.
    TooLarge,
    /// The local queue stayed full until the deadline. Nothing was sent.
    QueueFull,
    /// The brokers or the client refused it for good. Nothing was written.
    Refused,
    /// It never left this process before its time was up. Nothing was written.
    NotSent,
    /// It was handed to a broker, and no answer came: it may be in the log.
    MaybeDelivered,
}

/// A record that was not seen to be delivered.
///
/// Sending the same message again is right in every case: it carries the same key, and the job
/// runs once. The producer's own idempotence does not cover that, only its internal retries.
///
/// `Debug` prints the same text as `Display`: it is what a `main` returning it shows.
#[derive(Clone, thiserror::Error)]
#[error("topic {topic}, key hash {key_hash}: {what}: {detail}", what = self.kind.says())]
pub struct SendError {
    topic: String,
    key_hash: String,
    kind: SendErrorKind,
    detail: String,
}

impl std::fmt::Debug for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl SendError {
    pub(super) fn new(topic: &str, key_hash: &str, kind: SendErrorKind, detail: impl Into<String>) -> Self {
        Self { topic: topic.to_owned(), key_hash: key_hash.to_owned(), kind, detail: detail.into() }
    }

    /// What became of the record.
    pub fn kind(&self) -> SendErrorKind {
        self.kind
    }

    /// Whether the record may be in the log all the same.
    pub fn maybe_delivered(&self) -> bool {
        self.kind == SendErrorKind::MaybeDelivered
    }

    /// The topic it was for.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// 8 bytes of the key's digest in hex.
    pub fn key_hash(&self) -> &str {
        &self.key_hash
    }
}

impl SendErrorKind {
    fn says(self) -> &'static str {
        match self {
            Self::Invalid | Self::TooLarge | Self::Refused | Self::NotSent => "not sent",
            Self::QueueFull => "not sent, the local queue stayed full",
            Self::MaybeDelivered => "no proof of delivery, it may have been delivered",
        }
    }
}

/// Sorts a failure. `never_sent` is librdkafka's word that no broker has seen the record; without
/// it nothing is taken for certain but a broker's plain refusal.
pub(super) fn kind_of(error: &KafkaError, never_sent: bool) -> SendErrorKind {
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => SendErrorKind::TooLarge,
        Some(Code::QueueFull) => SendErrorKind::QueueFull,
        Some(
            Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::InvalidTopic
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::InvalidRecord
            | Code::PolicyViolation
            | Code::InvalidArgument
            | Code::Fatal,
        ) if never_sent => SendErrorKind::Refused,
        _ if never_sent => SendErrorKind::NotSent,
        _ => SendErrorKind::MaybeDelivered,
    }
}
