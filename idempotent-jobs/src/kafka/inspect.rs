//! What the brokers say of topics and groups. Nothing is written, and no group is joined.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::panic::resume_unwind;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::Offset;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataTopic};
use tokio::sync::oneshot;

use super::checks::{Ear, Marked, Reader, client, refusal, unreachable};
use super::membership::list;
use super::{Partition, Properties, Topics, after, facts, gaps, native};

/// Which groups read which topics.
pub type Readers = BTreeMap<String, BTreeSet<String>>;

/// A look at the brokers.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Brokers that are alive.
    pub brokers: usize,
    /// The topics that were asked for.
    pub topics: Vec<Topic>,
    /// The groups that were asked for.
    pub groups: Vec<Group>,
}

/// A topic.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id, where the brokers give one: made anew, it has another.
    pub id: Option<String>,
    /// Why nothing else is known of it, and what to do.
    pub problem: Option<String>,
    /// Its partitions, from 0.
    pub partitions: Vec<Replicas>,
    /// Its settings, or why they cannot be read.
    pub settings: Result<BTreeMap<String, String>, String>,
    /// Partitions with messages that are dated more than five minutes ahead of this machine's clock.
    pub ahead: usize,
}

/// One of which nothing is known.
impl Default for Topic {
    fn default() -> Self {
        let settings = Err("they were not asked for".to_owned());
        Self { name: String::new(), id: None, problem: None, partitions: Vec::new(), settings, ahead: 0 }
    }
}

/// Who has a partition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replicas {
    /// The broker that leads it, if one does.
    pub leader: Option<i32>,
    /// Brokers that are to have it.
    pub all: usize,
    /// Brokers that have all of it.
    pub in_sync: usize,
}

/// A consumer group.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How it stands, in the brokers' words, and its members, or why that is not known.
    pub members: Result<(String, usize), String>,
    /// How far it has read, or why that is not known.
    pub progress: Result<Vec<Progress>, String>,
    /// The partitions of its topics that are left out there.
    pub unread: Vec<Unread>,
}

/// A partition of whose log nobody said where it begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The topic.
    pub topic: String,
    /// The partition, from 0.
    pub partition: i32,
    /// Why.
    pub why: String,
}

/// The partitions of one topic that are left out for one reason.
pub fn alike(unread: &[Unread]) -> BTreeMap<(&str, &str), Vec<i32>> {
    let mut alike: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    for it in unread {
        alike.entry((it.topic.as_str(), it.why.as_str())).or_default().push(it.partition);
    }
    alike
}

/// How far a group has read a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The topic.
    pub topic: String,
    /// The partition, from 0.
    pub partition: i32,
    /// Its committed offset, if it has one.
    pub committed: Option<i64>,
    /// What was left beside it: a worker's mark, or nothing.
    pub mark: String,
    /// The log's first offset.
    pub start: i64,
    /// The offset of the next message to come.
    pub end: i64,
}

impl Progress {
    /// Messages that are still to be read.
    pub fn lag(&self) -> i64 {
        (self.end - self.committed.unwrap_or(self.start).max(self.start)).max(0)
    }
}

/// How long a group's coordinator may take to describe it. librdkafka's own broker never does.
const MEMBERS: Duration = Duration::from_secs(3);

/// How long the brokers may take to say the ids of topics; old ones, and librdkafka's own, do not.
const IDS: Duration = Duration::from_secs(2);

/// A message so far ahead was dated by a clock that is wrong.
const AHEAD: Duration = Duration::from_secs(300);

/// Looks at the brokers for these groups and their topics, for up to `budget` and about half of that more.
///
/// # Errors
/// One sentence for each problem, each saying what to do.
pub async fn inspect(properties: &Properties, readers: Readers, budget: Duration) -> Result<Cluster, Vec<String>> {
    let properties = properties.clone();
    let (answer, answered) = oneshot::channel();
    // A thread of its own and not one of the runtime's, which the program's end would wait for.
    let asking = std::thread::Builder::new().name("idempotent-jobs-look".to_owned()).spawn(move || {
        let _ = answer.send(look(&properties, &readers, budget));
    });
    let failed = |error: &dyn std::fmt::Display| Err(vec![format!("the brokers could not be asked: {error}")]);
    match asking {
        Ok(_) => answered.await.unwrap_or_else(|error| failed(&error)),
        Err(error) => failed(&error),
    }
}

fn look(properties: &Properties, readers: &Readers, budget: Duration) -> Result<Cluster, Vec<String>> {
    let deadline = after(budget);
    // Whoever looks at all groups has none of its own.
    let properties = match properties.group_id() {
        Some(_) => properties.clone(),
        None => properties.clone().group("-"),
    };
    let mut config = properties.consumer()?;
    config.remove("group.id");
    let client = client(&config)?;
    let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
    let metadata =
        client.fetch_metadata(None, left()).map_err(|error| vec![unreachable(&properties, &client, &error)])?;
    let names: BTreeSet<&String> = readers.values().flatten().collect();
    let mut topics: Vec<Topic> = names.into_iter().map(|name| topic(&client, &metadata, name, left())).collect();
    settings(&properties, &mut topics, left());
    let known: Topics = topics
        .iter()
        .filter(|topic| topic.problem.is_none())
        .map(|topic| (topic.name.clone(), i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX)))
        .collect();
    // Before the ends: of a topic that is written to, what is committed then is never beyond them.
    let committed: Vec<_> = (readers.iter())
        .map(|(name, read)| {
            let known = known.iter().filter(|(topic, _)| read.contains(*topic));
            let known: Topics = known.map(|(name, count)| (name.clone(), *count)).collect();
            let group = properties.clone().group(name);
            let marked = Reader::open(&group).and_then(|reader| reader.marked(&known, left()));
            (name, known, marked)
        })
        .collect();
    // One silent broker takes no time from the questions that follow.
    let ends = Ends::look(&client, &topics, left() * 2 / 3);
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let mut ids = facts::ids(&client, &names, 0, || left().min(IDS));
    for topic in &mut topics {
        topic.id = ids.remove(&topic.name).and_then(Result::ok).flatten();
        topic.ahead = ends.ahead.iter().filter(|name| **name == topic.name).count();
    }
    let group = |(name, known, marked): (&String, Topics, _)| Group {
        name: name.clone(),
        members: members(&client, name, left()),
        progress: progress(&known, marked, &ends),
        unread: ends.unread.iter().filter(|it| known.contains_key(&it.topic)).cloned().collect(),
    };
    let groups = committed.into_iter().map(group).collect();
    Ok(Cluster { brokers: metadata.brokers().len(), topics, groups })
}

fn topic(client: &BaseConsumer<Ear>, all: &Metadata, name: &str, timeout: Duration) -> Topic {
    let empty = Topic { name: name.to_owned(), ..Topic::default() };
    let of = |found: &MetadataTopic| match found.error() {
        Some(error) => Topic { problem: Some(refusal(name, error.into())), ..empty.clone() },
        None => Topic { partitions: replicas(found), ..empty.clone() },
    };
    if let Some(found) = all.topics().iter().find(|found| found.name() == name) {
        return of(found);
    }
    // One that may not be listed, or is not there.
    match client.fetch_metadata(Some(name), timeout) {
        Ok(own) => own.topics().first().map_or_else(|| empty.clone(), of),
        Err(error) => Topic { problem: Some(format!("topic `{name}`: {error}")), ..empty },
    }
}

fn replicas(topic: &MetadataTopic) -> Vec<Replicas> {
    let mut partitions: Vec<_> = topic.partitions().iter().collect();
    partitions.sort_by_key(|partition| partition.id());
    partitions
        .into_iter()
        .map(|it| Replicas {
            leader: Some(it.leader()).filter(|id| *id >= 0),
            all: it.replicas().len(),
            in_sync: it.isr().len(),
        })
        .collect()
}

/// Asks for the settings of all topics at once.
fn settings(properties: &Properties, topics: &mut [Topic], timeout: Duration) {
    let read = ask_for_settings(properties, topics, timeout);
    for topic in topics {
        topic.settings = match &read {
            Ok(all) => all.get(&topic.name).cloned().unwrap_or_else(|| Err("the brokers do not say".to_owned())),
            Err(why) => Err(why.clone()),
        };
    }
}

type Settings = BTreeMap<String, Result<BTreeMap<String, String>, String>>;

fn ask_for_settings(properties: &Properties, topics: &[Topic], timeout: Duration) -> Result<Settings, String> {
    let names: Vec<&str> = topics.iter().filter(|it| it.problem.is_none()).map(|it| it.name.as_str()).collect();
    if names.is_empty() {
        return Ok(Settings::new());
    }
    let config = properties.relay(None).map_err(|problems| problems.join("; "))?;
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(|error| error.to_string())?;
    let wanted: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let options = AdminOptions::new().request_timeout(Some(timeout));
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let answers = runtime.block_on(admin.describe_configs(&wanted, &options)).map_err(|error| error.to_string())?;
    let read = names.into_iter().zip(answers).map(|(name, answer)| {
        let settings = answer.map_err(|code| code.to_string()).map(|resource| {
            let entries = resource.entries.into_iter().filter(|entry| !entry.is_sensitive);
            entries.filter_map(|entry| Some((entry.name, entry.value?))).collect()
        });
        (name.to_owned(), settings)
    });
    Ok(read.collect())
}

/// Where the logs begin and end.
#[derive(Default)]
struct Ends {
    spans: BTreeMap<(String, i32), (i64, i64)>,
    /// Of which that is not known.
    unread: Vec<Unread>,
    /// The topic of each partition with a message of the future.
    ahead: Vec<String>,
}

/// The first and the next offset of a log, or why nobody says.
type Span = Result<(i64, i64), KafkaError>;

/// What a broker said of the partitions that it leads.
struct Said {
    spans: Vec<(Partition, Span)>,
    ahead: Vec<String>,
}

impl Ends {
    /// Each leader is asked by itself, and all at the same time: one that is silent holds up no other.
    fn look(client: &BaseConsumer<Ear>, topics: &[Topic], timeout: Duration) -> Self {
        let (mut ends, deadline) = (Self::default(), after(timeout));
        let mut led: BTreeMap<i32, Vec<Partition>> = BTreeMap::new();
        for topic in topics.iter().filter(|topic| topic.problem.is_none()) {
            for (number, replicas) in (0_i32..).zip(&topic.partitions) {
                match replicas.leader {
                    Some(leader) => {
                        led.entry(leader).or_default().push(Partition { topic: topic.name.as_str().into(), number });
                    }
                    None => ends.leave_out(&topic.name, number, "no broker leads it"),
                }
            }
        }
        let said: Vec<Said> = std::thread::scope(|scope| {
            let ask = |partitions| scope.spawn(move || ask(client, partitions, deadline));
            let asked: Vec<_> = led.values().map(|partitions| ask(partitions)).collect();
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        for Said { spans, ahead } in said {
            ends.ahead.extend(ahead);
            for (Partition { topic, number }, span) in spans {
                match span {
                    Ok(span) => _ = ends.spans.insert((topic.to_string(), number), span),
                    Err(error) => {
                        let code =
                            error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string());
                        ends.leave_out(&topic, number, &format!("its leader does not say: {code}"));
                    }
                }
            }
        }
        ends.unread.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        ends
    }

    fn leave_out(&mut self, topic: &str, partition: i32, why: &str) {
        self.unread.push(Unread { topic: topic.to_owned(), partition, why: why.to_owned() });
    }
}

/// Asks for all partitions of a leader at once; where one of them costs the answer for all, one by one.
fn ask(client: &BaseConsumer<Ear>, partitions: &[Partition], deadline: Instant) -> Said {
    let left = || deadline.saturating_duration_since(Instant::now());
    let bounds = |which| gaps::ask(client, partitions.iter(), which, left());
    let spans: Vec<_> = match bounds(Offset::Beginning).and_then(|starts| Ok((starts, bounds(Offset::End)?))) {
        Ok((mut starts, mut ends)) => {
            let silent = || Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OperationTimedOut));
            let mut span = |at| {
                let start = starts.remove(at).unwrap_or_else(silent)?;
                Ok((start, ends.remove(at).unwrap_or_else(silent)?))
            };
            partitions.iter().map(|at| (at.clone(), span(at))).collect()
        }
        Err(error) => {
            let alone = |at: &Partition| match left() {
                Duration::ZERO => Err(error.clone()),
                left => client.fetch_watermarks(&at.topic, at.number, left),
            };
            partitions.iter().map(|at| (at.clone(), alone(at))).collect()
        }
    };
    let read = spans.iter().filter(|(_, span)| span.is_ok()).map(|(at, _)| at);
    let ahead = ahead(client, read, left()).unwrap_or_default();
    Said { spans, ahead }
}

/// The topic of each partition that has a message of the future.
fn ahead<'a>(
    client: &BaseConsumer<Ear>,
    partitions: impl Iterator<Item = &'a Partition>,
    timeout: Duration,
) -> Result<Vec<String>, KafkaError> {
    let future = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + AHEAD;
    let future = Offset::Offset(i64::try_from(future.as_millis()).unwrap_or(i64::MAX));
    let mut wanted = list(partitions);
    if wanted.count() == 0 {
        return Ok(Vec::new());
    }
    wanted.set_all_offsets(future)?;
    let found = client.offsets_for_times(wanted, timeout)?;
    let there =
        found.elements().into_iter().filter(|it| it.error().is_ok() && matches!(it.offset(), Offset::Offset(_)));
    Ok(there.map(|element| element.topic().to_owned()).collect())
}

fn progress(topics: &Topics, committed: Result<Marked, Vec<String>>, ends: &Ends) -> Result<Vec<Progress>, String> {
    let mut committed = committed.map_err(|problems| problems.join("; "))?;
    let read = ends.spans.iter().filter(|((topic, _), _)| topics.contains_key(topic));
    let progress = read.map(|((topic, partition), (start, end))| {
        let (committed, mark) = committed.remove(&(topic.clone(), *partition)).unzip();
        Progress {
            topic: topic.clone(),
            partition: *partition,
            committed,
            mark: mark.unwrap_or_default(),
            start: *start,
            end: *end,
        }
    });
    Ok(progress.collect())
}

fn members(client: &BaseConsumer<Ear>, name: &str, timeout: Duration) -> Result<(String, usize), String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    native::members(client.client().native_ptr(), &name, timeout.min(MEMBERS))
}

#[cfg(test)]
mod tests;
