//! What can be asked of the brokers before anything runs. These functions block.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};

use super::{Properties, after, faults, log, native};

/// The number of partitions of each topic.
pub type Topics = BTreeMap<String, i32>;

/// Checks the properties, that the brokers answer, and that the topics exist; creates nothing.
/// Blocks for up to `timeout` (about twice that when the brokers are silent).
///
/// # Errors
/// One sentence for each problem, each saying what to do.
pub fn check(properties: &Properties, topics: &[String], timeout: Duration) -> Result<Topics, Vec<String>> {
    let mut config = properties.consumer()?;
    // Without a group the client does not join, and closes at once.
    config.remove("group.id");
    let client = client(&config)?;
    let (mut found, mut problems) = (Topics::new(), Vec::new());
    for topic in topics {
        match partitions(&client, topic, timeout) {
            Ok(count) => _ = found.insert(topic.clone(), count),
            Err(Look::Refused(problem)) => problems.push(problem),
            Err(Look::Unreachable(error)) => return Err(vec![unreachable(properties, &client, &error)]),
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// The group's committed offsets of these topics; a partition without one is absent.
/// Blocks for up to `timeout`.
///
/// # Errors
/// One sentence for each problem.
pub fn committed(
    properties: &Properties,
    topics: &Topics,
    timeout: Duration,
) -> Result<BTreeMap<(String, i32), i64>, Vec<String>> {
    Reader::open(properties)?.committed(topics, timeout)
}

/// Committed offsets by partition, each with what was left beside it.
pub(super) type Marked = BTreeMap<(String, i32), (i64, String)>;

/// Reads a group's offsets without being its member.
pub(super) struct Reader {
    client: BaseConsumer<Ear>,
    group: String,
}

impl Reader {
    pub(super) fn open(properties: &Properties) -> Result<Self, Vec<String>> {
        let group = properties.group_id().unwrap_or_default().to_owned();
        Ok(Self { client: client(&properties.consumer()?)?, group })
    }

    pub(super) fn committed(
        &self,
        topics: &Topics,
        timeout: Duration,
    ) -> Result<BTreeMap<(String, i32), i64>, Vec<String>> {
        let marked = self.marked(topics, timeout)?;
        Ok(marked.into_iter().map(|(at, (offset, _))| (at, offset)).collect())
    }

    /// With what was left beside each.
    pub(super) fn marked(&self, topics: &Topics, timeout: Duration) -> Result<Marked, Vec<String>> {
        let refused = |error: KafkaError| {
            vec![format!("the committed offsets of group `{}` cannot be read: {error}", self.group)]
        };
        let mut wanted = TopicPartitionList::new();
        for (topic, count) in topics {
            (0..*count).for_each(|number| _ = wanted.add_partition(topic, number));
        }
        let list = self.ask(&wanted, timeout).map_err(refused)?;
        let mut offsets = BTreeMap::new();
        for (element, mark) in list.elements().into_iter().zip(native::metadata(&list)) {
            element.error().map_err(refused)?;
            if let Offset::Offset(offset) = element.offset() {
                offsets.insert((element.topic().to_owned(), element.partition()), (offset, mark));
            }
        }
        Ok(offsets)
    }

    /// Asks again while the group has no coordinator that knows it: on a new cluster, and when
    /// it moves to another broker.
    fn ask(&self, wanted: &TopicPartitionList, timeout: Duration) -> Result<TopicPartitionList, KafkaError> {
        const BETWEEN: Duration = Duration::from_millis(100);
        let deadline = after(timeout);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.client.committed_offsets(wanted.clone(), left) {
                Err(error) if coordinator_moves(&error) && left > BETWEEN => std::thread::sleep(BETWEEN),
                answer => return answer,
            }
        }
    }
}

fn coordinator_moves(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(code, Some(Code::NotCoordinator | Code::CoordinatorNotAvailable | Code::CoordinatorLoadInProgress))
}

enum Look {
    Refused(String),
    Unreachable(KafkaError),
}

fn partitions(client: &BaseConsumer<Ear>, topic: &str, timeout: Duration) -> Result<i32, Look> {
    let metadata = client.fetch_metadata(Some(topic), timeout).map_err(Look::Unreachable)?;
    let Some(found) = metadata.topics().first() else {
        return Err(Look::Refused(format!("the brokers say nothing of topic `{topic}`")));
    };
    if let Some(error) = found.error() {
        return Err(Look::Refused(refusal(topic, error.into())));
    }
    match i32::try_from(found.partitions().len()) {
        Ok(0) | Err(_) => Err(Look::Refused(missing(topic))),
        Ok(count) => Ok(count),
    }
}

pub(super) fn refusal(topic: &str, code: Code) -> String {
    match code {
        Code::UnknownTopic | Code::UnknownTopicOrPartition => missing(topic),
        Code::TopicAuthorizationFailed => format!("topic `{topic}`: this user may not read it"),
        Code::InvalidTopic => format!("topic `{topic}`: the brokers refuse the name"),
        code => format!("topic `{topic}`: {code}"),
    }
}

fn missing(topic: &str) -> String {
    format!(
        "topic `{topic}` does not exist, and is never created by reading it: \
         `kafka-topics.sh --bootstrap-server HOST:PORT --create --topic {topic} --partitions 12`"
    )
}

pub(super) fn unreachable(properties: &Properties, client: &BaseConsumer<Ear>, error: &KafkaError) -> String {
    // What went wrong with each connection waits in the queue.
    while client.poll(Duration::ZERO).is_some() {}
    let heard = client.context().0.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (code, said) = heard.unwrap_or_else(|| (error.rdkafka_error_code().unwrap_or(Code::Fail), error.to_string()));
    let advice = match faults::of_poll(&KafkaError::Global(code)) {
        faults::Fault::Lasting(advice) => advice,
        _ => "check the addresses, that the brokers run, and `security.protocol`",
    };
    format!("the Kafka brokers at {} do not answer ({said}): {advice}", properties.brokers())
}

pub(super) fn client(config: &ClientConfig) -> Result<BaseConsumer<Ear>, Vec<String>> {
    config
        .create_with_context(Ear::default())
        .map_err(|error| vec![format!("the Kafka client cannot be made: {error}")])
}

/// Remembers the most telling error: one that names a connection's trouble, not the outage as a whole.
#[derive(Default)]
pub(super) struct Ear(Mutex<Option<(Code, String)>>);

impl ClientContext for Ear {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log::pass_on(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        if code != Code::AllBrokersDown {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((code, reason.to_owned()));
        }
    }
}

impl ConsumerContext for Ear {}
