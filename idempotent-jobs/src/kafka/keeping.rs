//! What retention asks of the brokers: how long topics keep their messages, where they end, and how far the group came.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::checks::{Ear, Reader, check, client};
use super::{Partition, Properties, Topics, after, gaps};

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
    /// Whether a reader is known to find nothing from the committed offset on: what lies there are marks of transactions
    /// ([`read_out`]). Without a committed offset, from where it began.
    pub read: bool,
}

/// So many offsets are looked at for marks of transactions; behind more lies a message, or soon will.
const MARKS: i64 = 16;

impl Stand {
    /// Whether so little lies behind the committed offset that it may be marks of transactions alone.
    pub fn is_near_end(&self) -> bool {
        self.committed.is_some_and(|from| from >= self.start && self.end - from <= MARKS)
    }
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

/// Where these topics end, and then how far the group of the properties came in them; of none it is known here whether it
/// is [`read`](Stand::read) out. Answers within about four times `timeout`, however many partitions there are.
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
            (at, Stand { start, end, committed, read: false })
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

/// The logs' ends, by one question to each broker. Whoever reads committed transactions only would be told an earlier
/// end, before what lies there already.
fn ends(properties: &Properties, topics: &Topics, timeout: Duration) -> Result<Ends, Vec<String>> {
    let mut config = properties.consumer()?;
    config.set("isolation.level", "read_uncommitted").remove("group.id").remove("group.instance.id");
    let client = client(&config)?;
    let all: Vec<Partition> = (topics.iter())
        .flat_map(|(topic, count)| (0..*count).map(|number| Partition { topic: topic.as_str().into(), number }))
        .collect();
    let ask = |which| {
        gaps::ask(&client, all.iter(), which, timeout).map_err(|error| {
            vec![format!(
                "where the topics end cannot be read ({error}): `idempotent-jobs doctor` names the partitions"
            )]
        })
    };
    let (mut starts, mut ends) = (ask(Offset::Beginning)?, ask(Offset::End)?);
    let span = |at: Partition| {
        let silent = || Err(KafkaError::OffsetFetch(Code::OperationTimedOut));
        let of = |bounds: &mut BTreeMap<_, _>| bounds.remove(&at).unwrap_or_else(silent);
        let span = of(&mut starts).and_then(|start| Ok((start, of(&mut ends)?)));
        let Partition { topic, number } = &at;
        let failed = |error| vec![format!("the end of topic `{topic}`, partition {number}, cannot be read: {error}")];
        span.map(|span| ((topic.to_string(), *number), span)).map_err(failed)
    };
    all.into_iter().map(span).collect()
}

/// Those of these partitions in whose logs nothing lies from the committed offset on that a reader of committed
/// transactions sees. What cannot be asked within `timeout` is not among them.
pub async fn read_out(properties: &Properties, near: Stands, timeout: Duration) -> BTreeSet<(String, i32)> {
    let properties = properties.clone();
    let (mut read, near): (BTreeSet<_>, Vec<_>) = (BTreeSet::new(), near.into_iter().collect());
    let looked = aside(move || {
        let deadline = after(timeout);
        let mut config = properties.consumer()?;
        config.set("enable.partition.eof", "true").set("auto.offset.reset", "error").remove("group.instance.id");
        let client = client(&config)?;
        // By topic: the end of a partition is told by its number alone.
        for all in near.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            read.extend(show_their_ends(&client, all, deadline).unwrap_or_default());
        }
        Ok(read)
    });
    looked.await.unwrap_or_default()
}

/// Of partitions of one topic. Assigned by hand, so that the group hears nothing of it. To a reader the log ends before
/// the first message of a transaction that is open: then more may be there than it shows.
fn show_their_ends(
    client: &BaseConsumer<Ear>,
    all: &[((String, i32), Stand)],
    deadline: Instant,
) -> Result<Vec<(String, i32)>, KafkaError> {
    let left = || deadline.saturating_duration_since(Instant::now());
    let at =
        |((topic, number), _): &((String, i32), Stand)| Partition { topic: topic.as_str().into(), number: *number };
    let partitions: Vec<_> = all.iter().map(at).collect();
    let readable = gaps::bounds(client, partitions.iter(), Offset::End, left());
    let mut list = TopicPartitionList::new();
    let mut open = BTreeMap::new();
    for (partition, (place, stand)) in partitions.iter().zip(all) {
        let from = stand.committed.filter(|_| readable.get(partition).is_some_and(|end| *end >= stand.end));
        let Some(from) = from else { continue };
        list.add_partition_offset(&place.0, place.1, Offset::Offset(from))?;
        open.insert(place.1, place.clone());
    }
    client.assign(&list)?;
    let mut read = Vec::new();
    while !open.is_empty() {
        match client.poll(left()) {
            Some(Ok(message)) => _ = open.remove(&message.partition()),
            Some(Err(KafkaError::PartitionEOF(number))) => read.extend(open.remove(&number)),
            // Whatever it is about: those of which nothing is known yet are not read out.
            Some(Err(_)) | None => break,
        }
    }
    client.unassign()?;
    Ok(read)
}

#[cfg(test)]
mod tests;
