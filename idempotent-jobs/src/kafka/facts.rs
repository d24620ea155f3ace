//! What the brokers know of partitions that are to be read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::membership::list;
use super::native::TopicId;
use super::{Facts, Partition, gaps, native};

/// A committed offset and what was left beside it.
type Committed = Option<(i64, String)>;

/// How often a partition is asked for together with others, before it is believed to cost the answer for all: what
/// failed the first time may have been a question that was for all of them.
const TOGETHER: u32 = 2;

/// Why nothing is known of a partition.
pub(super) struct Miss {
    pub(super) error: KafkaError,
    /// It is the partition's own: no other one suffers from it.
    pub(super) own: bool,
}

impl Miss {
    fn of_all(error: KafkaError) -> Self {
        Self { error, own: false }
    }

    fn of_its_own(error: KafkaError) -> Self {
        Self { error, own: true }
    }
}

/// The log's end counts only for those without a committed offset, and the `doubted` ones. Asks for all together
/// that were not asked for often; where a log's start is not said, one by one. No such look is begun after half of
/// `budget`, no question takes longer than that, and all together no longer than twice the budget: partitions for
/// which there is no time are left out, but never all of them. Where no broker says whether the topic has an id,
/// nothing is known of a partition: it may be one of a topic that was made anew.
pub(super) fn gather<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[Partition],
    latest: bool,
    times: impl Fn(&Partition) -> u32,
    own: impl Fn(&Partition) -> u32,
    doubted: &BTreeSet<Partition>,
    budget: Duration,
) -> Vec<(Partition, Result<Facts, Miss>)> {
    let (began, all, budget) = (Instant::now(), 2 * budget, budget / 2);
    let left = || budget.min(all.saturating_sub(began.elapsed()));
    let committed = match committed(consumer, partitions, left()) {
        Ok(committed) => committed,
        Err(error) => return partitions.iter().map(|at| (at.clone(), Err(Miss::of_all(error.clone())))).collect(),
    };
    let needs_end = |at: &Partition| doubted.contains(at) || !matches!(committed.get(at), Some(Ok(Some(_))));
    let needed: BTreeSet<&Partition> = partitions.iter().filter(|at| needs_end(at)).collect();
    // One that could not be looked at would cost the answer for all.
    let wanted = || partitions.iter().filter(|at| own(at) < TOGETHER);
    let starts = gaps::bounds(consumer, wanted(), Offset::Beginning, left());
    let ends = gaps::bounds(consumer, wanted().filter(|at| needed.contains(at)), Offset::End, left());
    let mut topics: Vec<&str> = partitions.iter().map(|at| &*at.topic).collect();
    topics.sort_unstable();
    topics.dedup();
    let ids = ids(consumer, &topics, partitions.iter().map(&times).max().unwrap_or(0), left);
    let (mut found, mut looked) = (Vec::new(), false);
    let mut committed = committed;
    for partition in partitions {
        let bounds = match (starts.get(partition), ends.get(partition)) {
            (Some(start), end) if end.is_some() || !needed.contains(partition) => Ok((*start, end.copied())),
            _ if looked && began.elapsed() > budget => continue,
            _ => {
                looked = true;
                alone(consumer, partition, needed.contains(partition), left)
            }
        };
        let committed = committed.remove(partition).unwrap_or(Ok(None));
        let facts = bounds.map_err(Miss::of_its_own).and_then(|(start, end)| {
            let committed = committed.map_err(Miss::of_all)?;
            let topic_id = answered(ids.get(&*partition.topic)).map_err(Miss::of_all)?;
            Ok(Facts { partition: partition.clone(), committed, start, end, topic_id, latest })
        });
        found.push((partition.clone(), facts));
    }
    found
}

/// Not both ends in one question: where one of the answers is an error, librdkafka may take the other for both.
fn alone<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partition: &Partition,
    needs_end: bool,
    left: impl Fn() -> Duration,
) -> KafkaResult<(i64, Option<i64>)> {
    let start = gaps::bound(consumer, partition, Offset::Beginning, left())?;
    let end = if needs_end { Some(gaps::bound(consumer, partition, Offset::End, left())?) } else { None };
    Ok((start, end))
}

/// Asks the broker that librdkafka would ask, if it knows one; at later `times` another: that one may not answer.
pub(super) fn ids<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[&str],
    times: u32,
    left: impl Fn() -> Duration,
) -> BTreeMap<String, TopicId> {
    let client = consumer.client().native_ptr();
    let mut broker = None;
    if times > 0 || native::controller(client) <= 0 {
        let metadata = consumer.fetch_metadata(topics.first().copied(), left());
        broker =
            metadata.ok().and_then(|metadata| metadata.brokers().iter().map(|it| it.id()).cycle().nth(times as usize));
    }
    native::topic_ids(client, broker, topics, left())
}

/// No answer is not the same as no id.
fn answered(id: Option<&TopicId>) -> KafkaResult<Option<String>> {
    let id = id.cloned().unwrap_or(Err(RDKafkaErrorCode::OperationTimedOut));
    id.map_err(KafkaError::MetadataFetch)
}

/// The committed offset of each partition, if it has one.
fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &[Partition],
    timeout: Duration,
) -> KafkaResult<BTreeMap<Partition, KafkaResult<Committed>>> {
    let answer = consumer.committed_offsets(list(partitions), timeout)?;
    let marks = native::metadata(&answer);
    let offsets = answer.elements().into_iter().zip(marks).map(|(element, mark)| {
        let offset = element.error().map(|()| match element.offset() {
            Offset::Offset(offset) => Some((offset, mark)),
            _ => None,
        });
        (Partition { topic: element.topic().into(), number: element.partition() }, offset)
    });
    Ok(offsets.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::faults::Fault;

    #[test]
    fn a_topic_without_an_id_is_told_from_one_whose_id_nobody_says() {
        assert_eq!(answered(Some(&Ok(Some("a".to_owned())))), Ok(Some("a".to_owned())));
        assert_eq!(answered(Some(&Ok(None))), Ok(None));
        for silent in [None, Some(&Err(RDKafkaErrorCode::OperationTimedOut))] {
            let error = answered(silent).expect_err("nobody answered");
            assert_eq!(gaps::fault(&error), Fault::Passing);
        }
        let gone = answered(Some(&Err(RDKafkaErrorCode::UnknownTopicOrPartition))).expect_err("it is gone");
        assert_eq!(gaps::fault(&gone), Fault::Missing);
    }
}
