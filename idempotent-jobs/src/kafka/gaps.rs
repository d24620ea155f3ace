//! Messages that were deleted before the group read them.
//!
//! With `auto.offset.reset=earliest` librdkafka goes on at the log's start without a word when
//! the next offset is gone. So the two are compared at each assignment and after each such reset,
//! before a further message is accepted. A transaction's end marker looks like a message here: a
//! log that was deleted to its end behind one is taken for a gap of one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;

use super::Partition;
use super::faults::Fault;
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

/// What a look at one partition found: no gap, a gap, or that the brokers cannot be asked.
pub(super) type Found = KafkaResult<Option<Gap>>;

/// Looks for gaps in partitions, each with its next offset. One question to each broker is for all of its
/// partitions that are asked for the `first` time, since each waits behind a fetch; where that fails they
/// are asked for one by one. No look is begun after half of `budget`, and none takes longer than
/// that: partitions for which there is no time are left out, but never all of them.
pub(super) fn find<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: Vec<(Partition, i64)>,
    first: impl Fn(&Partition) -> bool,
    budget: Duration,
) -> Vec<(Partition, Found)> {
    let (began, budget) = (Instant::now(), budget / 2);
    // One that could not be looked at would cost the answer for all.
    let wanted = partitions.iter().map(|(partition, _)| partition).filter(|partition| first(partition));
    let starts = bounds(consumer, wanted, Offset::Beginning, budget);
    let mut found = Vec::new();
    let mut looked = false;
    for (partition, next) in partitions {
        let result = match starts.get(&partition) {
            Some(start) if next >= *start => Ok(None),
            None if looked && began.elapsed() > budget => continue,
            _ => look(consumer, &partition, next, budget),
        };
        looked = true;
        found.push((partition, result));
    }
    found
}

fn look<C: ConsumerContext>(consumer: &BaseConsumer<C>, partition: &Partition, next: i64, timeout: Duration) -> Found {
    let (start, _) = consumer.fetch_watermarks(&partition.topic, partition.number, timeout)?;
    if start <= next {
        return Ok(None);
    }
    // librdkafka asks for both ends at once, and an answer may be taken for the other's when one
    // of them is an error. What stops a worker has to be said twice, in two ways.
    match bounds(consumer, [partition].into_iter(), Offset::Beginning, timeout).get(partition) {
        Some(again) if *again == start => Ok(Some(Gap { partition: partition.clone(), next, start })),
        _ => Err(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut)),
    }
}

/// Where the logs start or end, as far as the brokers say it.
pub(super) fn bounds<'a, C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: impl Iterator<Item = &'a Partition>,
    which: Offset,
    timeout: Duration,
) -> BTreeMap<Partition, i64> {
    let answers = ask(consumer, partitions, which, timeout).unwrap_or_default();
    answers.into_iter().filter_map(|(partition, bound)| Some((partition, bound.ok()?))).collect()
}

/// The same by one question to each broker, with what stood against it. One partition that has no leader, or whose leader
/// is silent or refuses it, costs the answer for all.
pub(super) fn ask<'a, C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: impl Iterator<Item = &'a Partition>,
    which: Offset,
    timeout: Duration,
) -> KafkaResult<BTreeMap<Partition, KafkaResult<i64>>> {
    let mut wanted = list(partitions);
    if wanted.count() == 0 {
        return Ok(BTreeMap::new());
    }
    // In a question for times, the beginning and the end are times.
    wanted.set_all_offsets(which)?;
    let answer = consumer.offsets_for_times(wanted, timeout)?;
    let bound = |element: TopicPartitionListElem<'_>| {
        let silent = || KafkaError::OffsetFetch(RDKafkaErrorCode::OperationTimedOut);
        let offset = element.offset().to_raw().filter(|offset| *offset >= 0).ok_or_else(silent);
        let partition = Partition { topic: element.topic().into(), number: element.partition() };
        (partition, element.error().and(offset))
    };
    Ok(answer.elements().into_iter().map(bound).collect())
}

/// The same of one partition, or why it is not known.
pub(super) fn bound<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partition: &Partition,
    which: Offset,
    timeout: Duration,
) -> KafkaResult<i64> {
    let silent = Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OperationTimedOut));
    ask(consumer, [partition].into_iter(), which, timeout)?.remove(partition).unwrap_or(silent)
}

/// When partitions that could not be looked at are looked at again: an unreachable one must not
/// hold up the others, nor the polling, for long.
#[derive(Default)]
pub(super) struct Later(BTreeMap<Partition, Retry>);

struct Retry {
    first: Instant,
    times: u32,
    /// Of these, looks at it alone, or at it among others, that failed for it.
    own: u32,
    next: Instant,
}

impl Later {
    /// Forgets what needs no look any more.
    pub(super) fn keep(&mut self, wanted: &BTreeSet<Partition>) {
        self.0.retain(|partition, _| wanted.contains(partition));
    }

    pub(super) fn due(&self, partition: &Partition) -> bool {
        self.0.get(partition).is_none_or(|retry| retry.next <= Instant::now())
    }

    /// How often a look at it failed.
    pub(super) fn times(&self, partition: &Partition) -> u32 {
        self.0.get(partition).map_or(0, |retry| retry.times)
    }

    /// How often a look at it failed for its own sake, and not since nothing was said of any.
    pub(super) fn own(&self, partition: &Partition) -> u32 {
        self.0.get(partition).map_or(0, |retry| retry.own)
    }

    /// Puts a partition off, for longer each time, after a look that failed for its `own` sake or not; returns for how
    /// long it has failed.
    pub(super) fn put_off(&mut self, partition: &Partition, own: bool) -> Duration {
        let now = Instant::now();
        let retry = self.0.entry(partition.clone()).or_insert(Retry { first: now, times: 0, own: 0, next: now });
        retry.times = retry.times.saturating_add(1);
        retry.own = retry.own.saturating_add(u32::from(own));
        retry.next = now + Duration::from_secs(1 << retry.times.min(4).saturating_sub(1));
        now - retry.first
    }
}

/// One sentence for all of them.
pub(super) fn sentence(gaps: &[Gap]) -> String {
    gaps.iter().map(Gap::to_string).collect::<Vec<_>>().join("; ")
}

/// What a failed look means.
pub(super) fn fault(error: &KafkaError) -> Fault {
    super::faults::of_poll(&match error {
        KafkaError::MetadataFetch(code) | KafkaError::OffsetFetch(code) => KafkaError::Global(*code),
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_put_off_for_longer_each_time_and_the_others_are_not() {
        let (bad, good) = (Partition { topic: "t".into(), number: 0 }, Partition { topic: "t".into(), number: 1 });
        let mut later = Later::default();
        let waits: Vec<u64> = (0..6)
            .map(|_| {
                later.put_off(&bad, true);
                let wait = later.0[&bad].next - Instant::now();
                wait.as_secs_f64().round() as u64
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 8, 8]);
        assert!(!later.due(&bad) && later.due(&good));
        later.keep(&BTreeSet::from([good]));
        assert!(later.due(&bad), "assigned again, it is looked at again");
    }
}
