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
    /// It stays until somebody changes something: what to do.
    Lasting(&'static str),
}

/// Sorts an error from polling.
pub(super) fn of_poll(error: &KafkaError) -> Fault {
    match error {
        KafkaError::PartitionEOF(_) => Fault::Nothing,
        KafkaError::MessageConsumptionFatal(_) => Fault::Lasting("the client is unusable: start again"),
        KafkaError::MessageConsumption(code) | KafkaError::Global(code) => of_code(*code),
        _ => Fault::Passing,
    }
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
        Code::UnknownTopic | Code::UnknownTopicOrPartition => "create the topic; it is never created by reading it",
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
