//! Which errors of librdkafka end the worker, which pass, and which are nothing.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// What an error from polling means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No error.
    Nothing,
    /// librdkafka mends it by itself.
    Passing,
    /// The group took the partitions away since nothing polled; polling on rejoins.
    Slept,
    /// A topic or partition is not known: brokers say so for a moment when they restart, too.
    Missing,
    /// It stays until somebody changes something: what to do.
    Lasting(&'static str),
}

/// Sorts an error from polling.
pub(super) fn of_poll(error: &KafkaError) -> Fault {
    match error {
        KafkaError::PartitionEOF(_) => Fault::Nothing,
        KafkaError::MessageConsumptionFatal(_) => Fault::Lasting("the client is unusable: start again"),
        KafkaError::MessageConsumption(code) => of_record(*code).unwrap_or_else(|| of_code(*code)),
        KafkaError::Global(code) => of_code(*code),
        _ => Fault::Passing,
    }
}

/// What to do about a topic or partition that stays unknown.
pub(super) const MISSING: &str = "create the topic; it is never created by reading it";

/// What librdkafka says of records that it cannot read. It goes on behind some of them, so that
/// going on too would commit an offset past a message nobody has seen.
fn of_record(code: Code) -> Option<Fault> {
    Some(Fault::Lasting(match code {
        Code::NotImplemented | Code::BadCompression | Code::UnsupportedCompressionType => {
            "a record is compressed or written in a way this client cannot read; for zstd enable the feature `kafka-zstd`"
        }
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            "a record is larger than this client takes: raise `fetch.message.max.bytes` and `receive.message.max.bytes`"
        }
        Code::BadMessage
        | Code::InvalidMessage
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::UnsupportedForMessageFormat
        | Code::Underflow
        | Code::Partial => {
            "a record or an answer of the brokers is damaged; to go on without it, set the group's offset behind it"
        }
        _ => return None,
    }))
}

fn of_code(code: Code) -> Fault {
    Fault::Lasting(match code {
        Code::PartitionEOF => return Fault::Nothing,
        Code::PollExceeded => return Fault::Slept,
        Code::Fatal | Code::Fenced | Code::FencedInstanceId => {
            "another member took this one's place, or the client is unusable: start again"
        }
        Code::Authentication | Code::SaslAuthenticationFailed => {
            "the brokers do not accept these credentials: check `security.protocol` and the `sasl.…` properties"
        }
        Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition => return Fault::Missing,
        Code::TopicAuthorizationFailed => "allow this user to read the topic",
        Code::GroupAuthorizationFailed => "allow this user to read with this group",
        Code::InvalidSessionTimeout => {
            "the brokers refuse `session.timeout.ms`: set one between their `group.min.session.timeout.ms` and `group.max.session.timeout.ms`"
        }
        Code::InconsistentGroupProtocol => {
            "the group's other members use another `partition.assignment.strategy` or `group.protocol`: stop them all before changing it, or take a new group (eager and cooperative strategies cannot be mixed)"
        }
        Code::UnsupportedAssignor => "the brokers do not have this `group.remote.assignor`",
        Code::InvalidGroupId => "the brokers refuse the group's name",
        Code::GroupMaxSizeReached => "the group is full: raise the brokers' `group.max.size` or run fewer members",
        Code::AutoOffsetReset => "there is no offset to start from, and `auto.offset.reset=error` was set",
        _ => return Fault::Passing,
    })
}

/// Whether a failed commit only says that the group moved on: expected, and never retried with
/// the old generation. The next owner meets the claims.
pub(super) fn is_stale(code: Code) -> bool {
    matches!(
        code,
        Code::IllegalGeneration
            | Code::UnknownMemberId
            | Code::RebalanceInProgress
            | Code::FencedInstanceId
            | Code::FencedMemberEpoch
            | Code::StaleMemberEpoch
            | Code::AssignmentLost
            | Code::State
            | Code::NoOffset
            | Code::BrokerDestroy
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_ends_the_worker() {
        let unreadable = [
            (Code::BadMessage, "set the group's offset behind it"),
            (Code::InvalidMessage, "set the group's offset behind it"),
            (Code::InvalidRecord, "set the group's offset behind it"),
            (Code::InvalidTimestamp, "set the group's offset behind it"),
            (Code::UnsupportedForMessageFormat, "set the group's offset behind it"),
            (Code::Underflow, "set the group's offset behind it"),
            (Code::Partial, "set the group's offset behind it"),
            (Code::NotImplemented, "`kafka-zstd`"),
            (Code::BadCompression, "`kafka-zstd`"),
            (Code::UnsupportedCompressionType, "`kafka-zstd`"),
            (Code::MessageSizeTooLarge, "`receive.message.max.bytes`"),
            (Code::MessageBatchTooLarge, "`receive.message.max.bytes`"),
            (Code::InvalidMessageSize, "`receive.message.max.bytes`"),
        ];
        for (code, advice) in unreadable {
            let fault = of_poll(&KafkaError::MessageConsumption(code));
            assert!(matches!(fault, Fault::Lasting(text) if text.contains(advice)), "{code:?}: {fault:?}");
        }
    }

    #[test]
    fn an_outage_passes() {
        for code in [Code::BrokerTransportFailure, Code::AllBrokersDown, Code::Resolve, Code::KafkaStorageError] {
            assert_eq!(of_poll(&KafkaError::MessageConsumption(code)), Fault::Passing, "{code:?}");
        }
        assert_eq!(of_poll(&KafkaError::PartitionEOF(0)), Fault::Nothing);
    }
}
