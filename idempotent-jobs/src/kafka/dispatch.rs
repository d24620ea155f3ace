//! The relay's producer: takes records without waiting, and gathers their delivery reports.
//!
//! Per record it keeps one number and nothing else: reports come in batches, by that number.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
#[cfg(all(test, feature = "embedded"))]
use rdkafka::producer::Producer as _;
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::Notify;
use tracing::warn;

use super::log::{self, Sparing};
use super::{Properties, native};

/// What is to be written, borrowed.
#[derive(Clone, Copy)]
pub struct Parcel<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The Kafka message key.
    pub key: Option<&'a [u8]>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// The headers, in wire order.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// Whether it travels in no batch with others.
    pub alone: bool,
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Every in-sync replica has it.
    Delivered,
    /// The brokers or the way to them: no record is to blame. It may be in the log.
    Trouble(String),
    /// This topic is refused to us, or is not there.
    Refused(String),
    /// The batch it travelled in was refused for a record of it that may be another.
    Shared(String),
    /// The record itself can never be written.
    Unfit(String),
    /// The producer cannot be used any more, and another is to be made.
    Broken(String),
}

/// Why a record was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// The local queue is full: try again after some reports.
    Full,
    /// As a report of it would say.
    Fate(Fate),
}

/// A delivery report: the number under which the record was offered, and its fate.
pub type Report = (usize, Fate);

/// How long a topic may be unknown to the brokers before they are believed. It has to be
/// shorter than a delivery may take, or its records would look like those of an outage.
const UNKNOWN: Duration = Duration::from_secs(5);

/// What the relay changes of a producer's defaults. A record waits for others so long: enough for
/// batches under load, and little beside the rest of the way when there is none.
const LINGER: &str = "2";

/// The relay's producer.
pub struct Dispatch {
    config: ClientConfig,
    client: ThreadedProducer<Gatherer>,
    /// Sends each record in a batch of its own.
    single: Option<ThreadedProducer<Gatherer>>,
    gathered: Arc<Gathered>,
    /// Of the clients: reports of earlier ones are of records that were given up.
    generation: u64,
}

/// Reports that were not taken yet.
#[derive(Default)]
struct Gathered {
    reports: Mutex<(u64, Vec<Report>)>,
    some: Notify,
}

impl Dispatch {
    /// Makes the producer. It connects in the background.
    ///
    /// # Errors
    /// Every property that is missing or refused, one sentence each.
    pub fn new(properties: &Properties, timeout: Option<Duration>) -> Result<Self, Vec<String>> {
        let mut config = properties.relay(timeout)?;
        if ["linger.ms", "queue.buffering.max.ms"].iter().all(|name| config.get(name).is_none()) {
            config.set("linger.ms", LINGER);
        }
        if config.get("topic.metadata.propagation.max.ms").is_none() {
            config.set("topic.metadata.propagation.max.ms", UNKNOWN.as_millis().to_string());
        }
        let gathered = Arc::new(Gathered::default());
        let client = client(&config, &gathered, 0)
            .map_err(|error| vec![format!("the Kafka producer of the relay cannot be made: {error}")])?;
        Ok(Self { config, client, single: None, gathered, generation: 0 })
    }

    /// Takes a record, which is copied; its report comes under this number.
    ///
    /// # Errors
    /// It was not taken, and no report will come.
    pub fn offer(&mut self, number: usize, parcel: &Parcel<'_>) -> Result<(), Declined> {
        let mut headers = OwnedHeaders::new_with_capacity(parcel.headers.len());
        for (key, value) in parcel.headers {
            headers = headers.insert(Header { key, value: *value });
        }
        let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(parcel.topic, number).headers(headers);
        record.key = parcel.key;
        record.payload = parcel.payload;
        let client = if parcel.alone { self.single()? } else { &self.client };
        client.send(record).map_err(|(error, _)| match error.rdkafka_error_code() {
            Some(Code::QueueFull) => Declined::Full,
            _ => Declined::Fate(fate(&error, true, true)),
        })
    }

    fn single(&mut self) -> Result<&ThreadedProducer<Gatherer>, Declined> {
        if self.single.is_none() {
            let mut config = self.config.clone();
            config.set("batch.num.messages", "1");
            let client = client(&config, &self.gathered, self.generation);
            self.single = Some(client.map_err(|error| Declined::Fate(Fate::Trouble(error.to_string())))?);
        }
        Ok(self.single.as_ref().expect("it was made above"))
    }

    /// Waits until there are reports.
    pub async fn reported(&self) {
        loop {
            let some = self.gathered.some.notified();
            if !self.gathered.lock().1.is_empty() {
                return;
            }
            some.await;
        }
    }

    /// The reports that came since the last call.
    pub fn reports(&self) -> Vec<Report> {
        mem::take(&mut self.gathered.lock().1)
    }

    /// Makes another producer in place of one that cannot go on. Of all that was offered before
    /// and has no report yet, none will come: it may be in the log.
    ///
    /// # Errors
    /// librdkafka's own; the old one stays.
    pub fn rebuild(&mut self) -> Result<(), String> {
        let client = client(&self.config, &self.gathered, self.generation + 1).map_err(|error| error.to_string())?;
        self.generation += 1;
        *self.gathered.lock() = (self.generation, Vec::new());
        let old = [Some(mem::replace(&mut self.client, client)), self.single.take()];
        // To end a client takes until its threads have ended.
        let _ = std::thread::Builder::new().name("idempotent-jobs-relay".to_owned()).spawn(move || drop(old));
        Ok(())
    }

    /// Puts the producer into the state in which it refuses everything.
    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn fail_for_good(&self) {
        native::fail_for_good(self.client.client().native_ptr());
    }
}

impl Gathered {
    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Report>)> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn client(
    config: &ClientConfig,
    gathered: &Arc<Gathered>,
    generation: u64,
) -> Result<ThreadedProducer<Gatherer>, KafkaError> {
    let trouble = Sparing::new(Duration::from_secs(30));
    config.create_with_context(Gatherer { gathered: Arc::clone(gathered), generation, trouble })
}

/// Gathers the reports of one client.
struct Gatherer {
    gathered: Arc<Gathered>,
    generation: u64,
    trouble: Sparing,
}

impl ClientContext for Gatherer {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log::pass_on(level, facility, text);
    }

    fn error(&self, _: KafkaError, reason: &str) {
        if self.trouble.due() {
            warn!("Kafka: {reason} (the same is not said again for 30 s)");
        }
    }
}

impl ProducerContext for Gatherer {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let fate = match result {
            Ok(_) => Fate::Delivered,
            Err((error, message)) => fate(error, native::never_sent(message), false),
        };
        let mut gathered = self.gathered.lock();
        if gathered.0 != self.generation {
            return;
        }
        gathered.1.push((number, fate));
        let first = gathered.1.len() == 1;
        drop(gathered);
        if first {
            self.gathered.some.notify_one();
        }
    }
}

/// Sorts a failure. `never_sent` is librdkafka's word that no broker has the record; `local`: the
/// client refused this very record, where a broker refuses whole batches.
fn fate(error: &KafkaError, never_sent: bool, local: bool) -> Fate {
    let detail = error.to_string();
    match error.rdkafka_error_code() {
        Some(Code::Fatal) => Fate::Broken(detail),
        _ if !never_sent => Fate::Trouble(detail),
        Some(
            Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::BadMessage,
        ) => {
            if local {
                Fate::Unfit(detail)
            } else {
                Fate::Shared(detail)
            }
        }
        Some(
            Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::InvalidTopic
            | Code::TopicAuthorizationFailed
            | Code::PolicyViolation
            | Code::UnsupportedForMessageFormat
            | Code::InvalidArgument,
        ) => Fate::Refused(detail),
        _ => Fate::Trouble(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: Code, never_sent: bool, local: bool) -> Fate {
        fate(&KafkaError::MessageProduction(code), never_sent, local)
    }

    #[test]
    fn out_04_an_outage_blames_no_record() {
        for code in [
            Code::MessageTimedOut,
            Code::BrokerTransportFailure,
            Code::AllBrokersDown,
            Code::NotLeaderForPartition,
            Code::PurgeQueue,
        ] {
            assert!(matches!(of(code, true, false), Fate::Trouble(_)), "{code:?}");
        }
        assert!(matches!(of(Code::UnknownTopicOrPartition, false, false), Fate::Trouble(_)));
    }

    #[test]
    fn out_05_a_refused_batch_does_not_tell_which_record_was_bad() {
        assert!(matches!(of(Code::MessageSizeTooLarge, true, true), Fate::Unfit(_)));
        assert!(matches!(of(Code::MessageSizeTooLarge, true, false), Fate::Shared(_)));
        assert!(matches!(of(Code::UnknownTopic, true, true), Fate::Refused(_)));
    }

    #[test]
    fn a_fatal_error_asks_for_another_producer() {
        assert!(matches!(of(Code::Fatal, true, true), Fate::Broken(_)));
        assert!(matches!(of(Code::Fatal, false, false), Fate::Broken(_)));
    }
}
