//! Kafka properties: what is forced, what is chosen for safety, what is passed on.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use super::prefetch;

/// Where the brokers are, which group reads, and every librdkafka property besides.
///
/// Nothing is checked until a client is made or [`problems`](Self::problems) is called; then
/// every problem is reported at once.
///
/// Forced: `enable.auto.commit=false` and `enable.auto.offset.store=false` (an offset moves only
/// behind finished work), `enable.idempotence=true` and `acks=all` for the producer.
///
/// Defaults, all of which may be set: `auto.offset.reset=earliest`,
/// `isolation.level=read_committed`, `allow.auto.create.topics=false`, and for the classic group
/// protocol `partition.assignment.strategy=range,roundrobin`, `session.timeout.ms=6000`,
/// `heartbeat.interval.ms=2000`. What is fetched ahead follows from [`prefetch`](Self::prefetch),
/// 32 MiB by default: 16 MiB (`queued.max.messages.kbytes`), 8,192 messages
/// (`queued.min.messages`), 8 MiB in one answer (`fetch.max.bytes`) and 256 KiB of a partition
/// (`fetch.message.max.bytes`). The producer
/// queues at most 64 MiB (`queue.buffering.max.kbytes`) for at most 30 s (`message.timeout.ms`),
/// and places keys as Kafka's Java clients do (`partitioner=murmur2_random`).
#[derive(Clone, Default)]
pub struct Properties {
    brokers: String,
    group: Option<String>,
    pairs: BTreeMap<String, String>,
    prefetch: Option<usize>,
    pub(super) problems: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// `(property, what to do instead)`: owned by an option of ours.
const OPTIONS: &[(&str, &str)] = &[
    ("bootstrap.servers", "give the brokers with `KAFKA_BROKERS` or `.brokers(…)`"),
    ("metadata.broker.list", "give the brokers with `KAFKA_BROKERS` or `.brokers(…)`"),
    ("group.id", "give the group with `KAFKA_GROUP_ID` or `.group_id(…)`"),
    ("transactional.id", "Kafka's transactions are not used here: the dedup key makes the effect single"),
    ("delivery.report.only.error", "every send waits for its delivery report: leave it out"),
    ("test.mock.num.brokers", "an in-process broker is chosen with `embedded::Broker`, never by a property"),
];

/// `(property, the values that change nothing, why)`.
const FORCED: &[(&str, &[&str], &str)] = &[
    ("enable.auto.commit", &["false", "f", "0"], "an offset may only move behind finished work"),
    ("auto.commit.enable", &["false", "f", "0"], "an offset may only move behind finished work"),
    ("enable.auto.offset.store", &["false", "f", "0"], "an offset may only move behind finished work"),
    ("enable.idempotence", &["true", "t", "1"], "a network retry must not write a record twice"),
    ("acks", &["all", "-1"], "a record counts as sent when every in-sync replica has it"),
    ("request.required.acks", &["all", "-1"], "a record counts as sent when every in-sync replica has it"),
];

/// Rejected by librdkafka and brokers under `group.protocol=consumer`.
const CLASSIC_ONLY: &[&str] =
    &["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"];

/// How names begin that mean nothing to a producer; some make it fail, the others make it warn.
const CONSUMER_ONLY: &[&str] = &[
    "auto.offset.reset",
    "group.",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "coordinator.query.interval.ms",
    "fetch.",
    "max.partition.fetch.bytes",
    "queued.",
    "isolation.level",
    "check.crcs",
    "enable.partition.eof",
    "auto.commit.interval.ms",
    "enable.auto.commit",
    "auto.commit.enable",
    "enable.auto.offset.store",
    "offset.store.",
    "consume.callback.max.messages",
];

const COMMON: &[(&str, &str)] = &[("allow.auto.create.topics", "false")];
const CONSUMER: &[(&str, &str)] =
    &[("auto.offset.reset", "earliest"), ("isolation.level", "read_committed"), ("fetch.queue.backoff.ms", "20")];
/// Of classic members; also what is assumed where the brokers decide.
const SESSION: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(2);
const CLASSIC: &[(&str, &str)] = &[
    ("partition.assignment.strategy", "range,roundrobin"),
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "2000"),
];
const PRODUCER: &[(&str, &str)] = &[
    ("queue.buffering.max.kbytes", "65536"),
    ("message.timeout.ms", "30000"),
    // As Kafka's own clients do: one entity's records lie in one partition, whoever sends them.
    ("partitioner", "murmur2_random"),
];

/// A default gives way to any of its names.
const ALIASES: &[(&str, &str)] =
    &[("fetch.message.max.bytes", "max.partition.fetch.bytes"), ("message.timeout.ms", "delivery.timeout.ms")];

impl Properties {
    /// For these brokers, `host:port` separated by commas.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self { brokers: brokers.into(), ..Self::default() }
    }

    /// Replaces the brokers.
    #[must_use]
    pub fn with_brokers(mut self, brokers: impl Into<String>) -> Self {
        self.brokers = brokers.into();
        self
    }

    /// The consumer group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets any librdkafka property, replacing an earlier value.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pairs.insert(name.into(), value.into());
        self
    }

    /// Sets every property of a map.
    #[must_use]
    pub fn set_all(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        self.pairs.extend(pairs);
        self
    }

    /// How many bytes a consumer may hold that were fetched and not yet handed over; at least
    /// 4 MiB. Properties that are set by name win over what follows from it.
    ///
    /// It is meant for messages of some hundred bytes and more, and holds for each broker: a
    /// batch that is larger than all of it still comes, since the partition would stand still.
    #[must_use]
    pub fn prefetch(mut self, bytes: usize) -> Self {
        self.prefetch = Some(bytes);
        self
    }

    /// These, with everything that `others` set in its place.
    pub(crate) fn overridden(mut self, others: Self) -> Self {
        if !others.brokers.is_empty() {
            self.brokers = others.brokers;
        }
        self.group = others.group.or(self.group);
        self.prefetch = others.prefetch.or(self.prefetch);
        self.pairs.extend(others.pairs);
        self.problems.extend(others.problems);
        self.warnings.extend(others.warnings);
        self
    }

    /// The brokers as they were given.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// The consumer group, if one was given.
    pub fn group_id(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// What is allowed and yet worth a line in the log.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if let Some(value) = self.pairs.get("auto.offset.reset").filter(|value| is_latest(value)) {
            warnings.push(format!(
                "`auto.offset.reset={value}`: messages written before the group first reads a partition, \
                 a partition added later among them, are never read"
            ));
        }
        if self.pairs.get("isolation.level").is_some_and(|level| level == "read_uncommitted") {
            warnings.push(
                "`isolation.level=read_uncommitted`: jobs run for records of transactions that were aborted".to_owned(),
            );
        }
        warnings
    }

    /// Everything that is wrong for a consumer of a group and for a producer, one sentence each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.producer_problems();
        if self.group.as_deref().is_none_or(str::is_empty) {
            problems.push("no consumer group: give one with `KAFKA_GROUP_ID` or `.group_id(…)`".to_owned());
        }
        problems.extend(self.protocol_problems());
        problems.extend(self.prefetch.and_then(prefetch::problem));
        problems
    }

    /// Everything that is wrong for a producer, which needs no group.
    pub(super) fn producer_problems(&self) -> Vec<String> {
        let mut problems = self.problems.clone();
        if self.brokers.trim().is_empty() {
            problems.push(
                "no Kafka brokers: give them with `KAFKA_BROKERS` or `.brokers(…)`, as `host:port,host:port`"
                    .to_owned(),
            );
        }
        problems.extend(self.pairs.iter().filter_map(|(name, value)| refusal(name, value)));
        problems
    }

    fn protocol_problems(&self) -> Vec<String> {
        if !self.consumer_protocol() {
            return Vec::new();
        }
        let set = CLASSIC_ONLY.iter().filter(|name| self.pairs.contains_key(**name));
        set.map(|name| {
            format!("`{name}` cannot be set with `group.protocol=consumer`, where the brokers decide it: leave it out, or use `group.protocol=classic`")
        })
        .collect()
    }

    /// Whether the group speaks KIP-848, where the brokers assign partitions and set the timeouts.
    pub fn consumer_protocol(&self) -> bool {
        self.pairs.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"))
    }

    /// How long a member may be silent before its partitions go to others.
    ///
    /// With `group.protocol=consumer` the brokers decide it and do not tell; 6 s are assumed
    /// then, below Kafka's own 45 s. Who asks wants to know when ownership must be doubted: to
    /// doubt early costs nothing while the client polls, to doubt late runs what others own.
    pub fn session_timeout(&self) -> Duration {
        self.millis_of("session.timeout.ms").unwrap_or(SESSION)
    }

    /// After so long without a sign of life the partitions may be another member's: a session,
    /// less the time that the last heartbeat may have been ago.
    pub fn silence(&self) -> Duration {
        let session = self.session_timeout();
        let heartbeat = self.millis_of("heartbeat.interval.ms").unwrap_or(HEARTBEAT);
        // A heartbeat as long as the session, which no group lives with, must not stop everything.
        session.saturating_sub(heartbeat).max(session / 2)
    }

    /// Whether partitions of which nothing is known are read from their ends.
    pub(super) fn starts_at_end(&self) -> bool {
        self.pairs.get("auto.offset.reset").is_some_and(|value| is_latest(value))
    }

    /// How long brokers may keep a fetch while there is nothing to send.
    pub(super) fn fetch_wait(&self) -> Duration {
        self.millis_of("fetch.wait.max.ms").unwrap_or(Duration::from_millis(500))
    }

    fn millis_of(&self, name: &str) -> Option<Duration> {
        self.pairs.get(name).and_then(|value| value.trim().parse().ok()).map(Duration::from_millis)
    }

    /// What a consumer of the group is made from.
    pub(super) fn consumer(&self) -> Result<ClientConfig, Vec<String>> {
        refuse(self.problems())?;
        let mut config = self.with_defaults(&[COMMON, CONSUMER, if self.consumer_protocol() { &[] } else { CLASSIC }]);
        for (name, value) in prefetch::derived(self.prefetch.unwrap_or(prefetch::DEFAULT), &self.pairs) {
            config.set(name, value);
        }
        config.set("group.id", self.group.as_deref().unwrap_or_default());
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        config.remove("acks").remove("request.required.acks").remove("enable.idempotence").remove("auto.commit.enable");
        Ok(config)
    }

    /// What a producer is made from; `timeout` bounds a delivery, unless a property does.
    pub(super) fn producer(&self, timeout: Option<Duration>) -> Result<ClientConfig, Vec<String>> {
        let mut problems = self.producer_problems();
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            problems.push(
                "the delivery timeout is 0, and no record could be delivered in time: give at least 1 ms".to_owned(),
            );
        }
        refuse(problems)?;
        let mut config = self.with_defaults(&[COMMON, PRODUCER]);
        if let Some(timeout) = timeout {
            config.remove("delivery.timeout.ms").set("message.timeout.ms", millis(timeout).to_string());
        }
        config.remove("request.required.acks").set("enable.idempotence", "true").set("acks", "all");
        for (name, ..) in FORCED.iter().filter(|(name, ..)| name.contains("auto")) {
            config.remove(name);
        }
        Ok(config)
    }

    /// What the relay's producer is made from: a worker's properties serve it as well, and those
    /// that mean something to a consumer alone are left out.
    pub(super) fn relay(&self, timeout: Option<Duration>) -> Result<ClientConfig, Vec<String>> {
        let mut own = self.clone();
        own.pairs.retain(|name, _| !CONSUMER_ONLY.iter().any(|only| name.starts_with(only)));
        own.producer(timeout)
    }

    fn with_defaults(&self, defaults: &[&[(&str, &str)]]) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Otherwise the `log` crate's level decides, which is off where only `tracing` is set up.
        let debug = tracing::enabled!(target: "librdkafka", tracing::Level::DEBUG);
        config.set_log_level(if debug { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config.set("bootstrap.servers", &self.brokers).set("client.id", "idempotent-jobs");
        for (name, value) in defaults.iter().copied().flatten() {
            if !is_set(&self.pairs, name) {
                config.set(*name, *value);
            }
        }
        config.extend(self.pairs.clone());
        config
    }
}

/// Shows the names, and the values of those that hold no secret.
impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            self.pairs.iter().map(|(name, value)| (name, if secret(name) { "(secret)" } else { value.as_str() }));
        f.debug_map().entry(&"brokers", &self.brokers).entry(&"group", &self.group).entries(shown).finish()
    }
}

/// Whether a property is set, by any of its names.
pub(super) fn is_set(pairs: &BTreeMap<String, String>, name: &str) -> bool {
    let alias = ALIASES.iter().find(|(main, _)| *main == name);
    pairs.contains_key(name) || alias.is_some_and(|(_, alias)| pairs.contains_key(*alias))
}

/// As librdkafka takes it, to which 0 means no end.
fn millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1)
}

fn refuse(problems: Vec<String>) -> Result<(), Vec<String>> {
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Why a property cannot be set to that value, if it cannot.
fn refusal(name: &str, value: &str) -> Option<String> {
    if let Some((_, instead)) = OPTIONS.iter().find(|(option, _)| *option == name) {
        return Some(format!("`{name}` cannot be set as a property: {instead}"));
    }
    if let Some((_, allowed, why)) = FORCED.iter().find(|(forced, ..)| *forced == name) {
        let same = allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(value.trim()));
        return (!same).then(|| format!("`{name}` is always `{}` ({why}): leave it out", allowed[0]));
    }
    let KafkaError::ClientConfig(kind, text, ..) = probe(name, value)? else {
        return Some(format!("`{name}` has a value with a NUL in it"));
    };
    Some(match kind {
        RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN => {
            format!("`{name}` is not a property of librdkafka (its CONFIGURATION.md lists them): {text}")
        }
        _ if secret(name) => format!("`{name}` has a value that librdkafka refuses (not shown, it may hold a secret)"),
        _ => format!("`{name}` is refused by librdkafka: {text}"),
    })
}

/// Asks librdkafka itself.
fn probe(name: &str, value: &str) -> Option<KafkaError> {
    ClientConfig::new().set(name, value).create_native_config().err()
}

pub(super) fn known(name: &str) -> bool {
    !matches!(probe(name, ""), Some(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)))
}

/// Whether values of that property are never printed.
pub(super) fn secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["password", "secret", "token", "oauthbearer", ".pem", "jaas", "ssl.key", "passphrase"]
        .iter()
        .any(|word| name.contains(word))
}

fn is_latest(value: &str) -> bool {
    ["latest", "largest", "end"].iter().any(|word| word.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_in_code_overrides_the_environment() {
        let vars = [("KAFKA_BROKERS", "a:1"), ("KAFKA_LINGER_MS", "1"), ("KAFKA_CLIENT_ID", "env")];
        let env = Properties::from_vars(vars.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let code = Properties::new("b:2").set("linger.ms", "2");
        let both = env.clone().overridden(code).producer(None).expect("they are right");
        let got = ["bootstrap.servers", "linger.ms", "client.id"].map(|name| both.get(name).expect("it is set"));
        assert_eq!(got, ["b:2", "2", "env"]);
        assert_eq!(env.overridden(Properties::default()).brokers(), "a:1");
    }

    #[test]
    fn the_session_timeout_is_the_one_in_effect() {
        let sane = Properties::new("a:1").group("g");
        let config = sane.consumer().expect("they are right");
        assert_eq!(config.get("session.timeout.ms"), Some(SESSION.as_millis().to_string().as_str()));
        assert_eq!(sane.session_timeout(), SESSION);
        assert_eq!(sane.clone().set("session.timeout.ms", "9000").session_timeout(), Duration::from_secs(9));
        assert_eq!(sane.set("group.protocol", "consumer").session_timeout(), SESSION);
    }

    #[test]
    fn con_08_a_member_is_silent_for_less_than_its_session() {
        let silence = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .fold(Properties::new("a:1"), |properties, (name, value)| properties.set(*name, *value))
                .silence()
        };
        assert_eq!(silence(&[]), Duration::from_secs(4));
        assert_eq!(silence(&[("group.protocol", "consumer")]), Duration::from_secs(4));
        assert_eq!(silence(&[("session.timeout.ms", "45000")]), Duration::from_secs(43));
        assert_eq!(silence(&[("session.timeout.ms", "2000")]), Duration::from_secs(1));
    }

    #[test]
    fn a_timeout_is_never_cut_to_none() {
        let cases = [(Duration::from_nanos(1), 1), (Duration::from_millis(7), 7), (Duration::MAX, i32::MAX)];
        for (timeout, wanted) in cases {
            assert_eq!(millis(timeout), wanted);
        }
    }
}
