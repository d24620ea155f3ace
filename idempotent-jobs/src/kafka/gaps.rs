//! Messages that were deleted before the group read them.
//!
//! With `auto.offset.reset=earliest` librdkafka goes on at the log's start without a word when
//! the next offset is gone. So the two are compared at each assignment and after each such reset,
//! before a further message is accepted. A transaction's end marker looks like a message here: a
//! log that was deleted to its end behind one is taken for a gap of one.

use std::collections::BTreeMap;
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
    next: i64,
    start: i64,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, next, start } = self;
        let lost = start - next;
        write!(
            f,
            "topic {}, partition {}: {lost} message(s) were deleted before they were read (next offset {next}, \
             the log starts at {start}): set the group's offset to {start} to accept that, and raise the topic's retention",
            partition.topic, partition.number
        )
    }
}

/// The gaps among partitions, each with its next offset if it is known; else the group's
/// committed one counts. Waits up to `timeout` for each answer.
pub(super) fn find<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &BTreeMap<Partition, Option<i64>>,
    timeout: Duration,
) -> KafkaResult<Vec<Gap>> {
    let unknown: Vec<&Partition> =
        partitions.iter().filter(|(_, next)| next.is_none()).map(|(partition, _)| partition).collect();
    let mut positions: Vec<(Partition, i64)> =
        partitions.iter().filter_map(|(partition, next)| Some((partition.clone(), (*next)?))).collect();
    if !unknown.is_empty() {
        positions.extend(committed(consumer, &unknown, timeout)?);
    }
    let mut gaps = Vec::new();
    for (partition, next) in positions {
        let (start, _) = consumer.fetch_watermarks(&partition.topic, partition.number, timeout)?;
        if next < start {
            gaps.push(Gap { partition, next, start });
        }
    }
    Ok(gaps)
}

fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[&Partition],
    timeout: Duration,
) -> KafkaResult<Vec<(Partition, i64)>> {
    let answer = consumer.committed_offsets(list(partitions.iter().copied()), timeout)?;
    let mut offsets = Vec::new();
    for element in answer.elements() {
        element.error()?;
        if let Offset::Offset(offset) = element.offset() {
            offsets.push((Partition { topic: element.topic().into(), number: element.partition() }, offset));
        }
    }
    Ok(offsets)
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
