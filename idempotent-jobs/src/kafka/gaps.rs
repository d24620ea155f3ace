//! Messages that were deleted before the group read them.
//!
//! With `auto.offset.reset=earliest` librdkafka goes on at the log's start without a word when
//! the committed offset is gone. So the two are compared at each assignment, before the first
//! message is accepted.

use std::fmt;
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};

use super::Partition;
use super::membership::list;

/// A span of a partition that nobody can read any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    partition: Partition,
    committed: i64,
    start: i64,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, committed, start } = self;
        let lost = start - committed;
        write!(
            f,
            "topic {}, partition {}: {lost} message(s) were deleted before they were read (committed offset {committed}, \
             the log starts at {start}): set the group's offset to {start} to accept that, and raise the topic's retention",
            partition.topic, partition.number
        )
    }
}

/// The gaps among partitions that are assigned. Waits up to `timeout` for each answer.
pub(super) fn find<'a, C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: impl IntoIterator<Item = &'a Partition>,
    timeout: Duration,
) -> KafkaResult<Vec<Gap>> {
    let committed = consumer.committed_offsets(list(partitions), timeout)?;
    let mut gaps = Vec::new();
    for element in committed.elements() {
        element.error()?;
        let Offset::Offset(committed) = element.offset() else { continue };
        let (start, _) = consumer.fetch_watermarks(element.topic(), element.partition(), timeout)?;
        if committed < start {
            let partition = Partition { topic: element.topic().into(), number: element.partition() };
            gaps.push(Gap { partition, committed, start });
        }
    }
    Ok(gaps)
}

/// One sentence for all of them.
pub(super) fn sentence(gaps: &[Gap]) -> String {
    gaps.iter().map(Gap::to_string).collect::<Vec<_>>().join("; ")
}

/// Whether a failed look says only that the brokers cannot be asked now.
pub(super) fn is_passing(error: &KafkaError) -> bool {
    super::faults::of_poll(&match error {
        KafkaError::MetadataFetch(code) | KafkaError::OffsetFetch(code) => KafkaError::Global(*code),
        other => other.clone(),
    }) == super::faults::Fault::Passing
}
