//! What retention asks of the brokers: how long topics keep their messages, where they end, and how far the group came.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::checks::{Ear, Reader, check, client};
use super::{Properties, Topics, after};

/// How a topic keeps its messages, in the broker's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// `cleanup.policy`: `delete`, `compact`, both, or nothing.
    pub policy: String,
    /// `retention.ms`; negative: without an end.
    pub retention: i64,
    /// `segment.ms`: a message goes with the last one of its segment.
    pub segment: i64,
}

/// Where a partition ends, and how far the group came in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stand {
    /// The log's first offset.
    pub start: i64,
    /// The offset behind the log's last message, asked before `committed`.
    pub end: i64,
    /// The group's committed offset, if there is one.
    pub committed: Option<i64>,
    /// Whether a reader finds nothing from the committed offset on: what lies there are marks of transactions. Without a
    /// committed offset, whether one is known to find nothing from where it began.
    pub read: bool,
}

/// By topic and partition.
pub type Stands = BTreeMap<(String, i32), Stand>;

/// How these topics keep their messages. Answers within about `timeout` for each of them.
///
/// # Errors
/// One sentence for each topic whose settings cannot be read, or one for all.
pub async fn keeping(
    properties: &Properties,
    topics: &[String],
    timeout: Duration,
) -> Result<BTreeMap<String, Keeping>, Vec<String>> {
    let (properties, topics, runtime) = (properties.clone(), topics.to_vec(), Handle::current());
    aside(move || runtime.block_on(describe(&properties, &topics, timeout))).await
}

/// Where these topics end, and then how far the group of the properties came in them. Answers within about three times
/// `timeout`.
///
/// # Errors
/// One sentence for each problem.
pub async fn stands(properties: &Properties, topics: &[String], timeout: Duration) -> Result<Stands, Vec<String>> {
    let (properties, topics) = (properties.clone(), topics.to_vec());
    aside(move || {
        let topics = check(&properties, &topics, timeout)?;
        // In this order: whoever is behind the ends that were seen first has read what lay before them.
        let ends = ends(&properties, &topics, timeout)?;
        let committed = Reader::open(&properties)?.committed(&topics, timeout)?;
        let stand = |(at, (start, end)): ((String, i32), (i64, i64))| {
            let committed = committed.get(&at).copied();
            let read = committed.is_some_and(|from| is_read(&properties, &at, from, start..end));
            (at, Stand { start, end, committed, read })
        };
        Ok(ends.into_iter().map(stand).collect())
    })
    .await
}

/// On a thread of its own and not one of the runtime's, which the program's end would wait for.
async fn aside<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, Vec<String>> + Send + 'static,
) -> Result<T, Vec<String>> {
    let failed = |error: &dyn std::fmt::Display| Err(vec![format!("the brokers could not be asked: {error}")]);
    let (answer, answered) = oneshot::channel();
    let thread = std::thread::Builder::new().name("idempotent-jobs-retention".to_owned());
    match thread.spawn(move || _ = answer.send(ask())) {
        Ok(_) => answered.await.unwrap_or_else(|error| failed(&error)),
        Err(error) => failed(&error),
    }
}

async fn describe(
    properties: &Properties,
    topics: &[String],
    timeout: Duration,
) -> Result<BTreeMap<String, Keeping>, Vec<String>> {
    let admin: AdminClient<Ear> = properties
        .relay(None)?
        .create_with_context(Ear::default())
        .map_err(|error| vec![format!("the Kafka client cannot be made: {error}")])?;
    let options = AdminOptions::new().request_timeout(Some(timeout));
    let (mut found, mut problems) = (BTreeMap::new(), Vec::new());
    for topic in topics {
        // One at a time: an answer that refuses does not say which topic it is about.
        let answer = admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options).await;
        match answer.map_err(|error| code(&error)).and_then(|mut all| all.pop().unwrap_or(Err(Code::Fail))) {
            Ok(config) => match keeping_of(&config) {
                Ok(keeping) => _ = found.insert(topic.clone(), keeping),
                Err(name) => problems.push(format!("topic `{topic}`: the brokers do not tell its `{name}`")),
            },
            Err(code) => problems.push(unread(topic, code)),
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

fn code(error: &KafkaError) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Fail)
}

fn unread(topic: &str, code: Code) -> String {
    let advice = match code {
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            ": allow this user `DescribeConfigs` on the topic"
        }
        Code::UnsupportedFeature | Code::UnsupportedVersion => " (the embedded broker does not tell)",
        _ => "",
    };
    format!("topic `{topic}`: its settings cannot be read ({code}){advice}")
}

fn keeping_of(config: &ConfigResource) -> Result<Keeping, &'static str> {
    let value = |name: &'static str| config.get(name).and_then(|entry| entry.value.as_deref()).ok_or(name);
    let number = |name| value(name)?.trim().parse().map_err(|_| name);
    Ok(Keeping {
        policy: value("cleanup.policy")?.to_owned(),
        retention: number("retention.ms")?,
        segment: number("segment.ms")?,
    })
}

/// The first and the next offset of each partition's log.
type Ends = BTreeMap<(String, i32), (i64, i64)>;

/// The logs' ends. Whoever reads committed transactions only would be told an earlier
/// end, before what lies there already.
fn ends(properties: &Properties, topics: &Topics, timeout: Duration) -> Result<Ends, Vec<String>> {
    let mut config = properties.consumer()?;
    config.set("isolation.level", "read_uncommitted").remove("group.id").remove("group.instance.id");
    let client = client(&config)?;
    let deadline = after(timeout);
    let mut ends = Ends::new();
    for (topic, count) in topics {
        for number in 0..*count {
            let left = deadline.saturating_duration_since(Instant::now());
            let found = client.fetch_watermarks(topic, number, left).map_err(|error| {
                vec![format!("the end of topic `{topic}`, partition {number}, cannot be read: {error}")]
            })?;
            ends.insert((topic.clone(), number), found);
        }
    }
    Ok(ends)
}

/// So many offsets are looked at; behind more lies a message, or soon will.
const MARKS: i64 = 16;
/// How long a broker may take to show the first message or the end.
const GLANCE: Duration = Duration::from_secs(3);

/// Whether nothing lies in `log` from an offset on that a reader of committed transactions sees. Of what was deleted
/// nobody knows.
fn is_read(properties: &Properties, (topic, number): &(String, i32), from: i64, log: Range<i64>) -> bool {
    if from >= log.end {
        return true;
    }
    from >= log.start
        && log.end - from <= MARKS
        && shows_its_end(properties, topic, *number, from..log.end).unwrap_or(false)
}

/// Assigned by hand, so that the group hears nothing of it. To a reader the log ends before the first message of a
/// transaction that is open: then more may be there than it shows.
fn shows_its_end(properties: &Properties, topic: &str, number: i32, log: Range<i64>) -> Option<bool> {
    let mut config = properties.consumer().ok()?;
    config.set("enable.partition.eof", "true").set("auto.offset.reset", "error").remove("group.instance.id");
    let client = client(&config).ok()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, number, Offset::Offset(log.start)).ok()?;
    let (_, readable) = client.fetch_watermarks(topic, number, GLANCE).ok()?;
    if readable < log.end {
        return Some(false);
    }
    client.assign(&list).ok()?;
    Some(matches!(client.poll(GLANCE), Some(Err(KafkaError::PartitionEOF(_)))))
}
