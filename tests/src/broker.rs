//! A broker to test on: librdkafka's own in this process, or a real one.

use std::time::{Duration, Instant};

use idempotent_jobs::embedded;
use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, FutureProducer, FutureRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::database::fresh;
use crate::servers::{self, Turn};
use crate::{PATIENCE, wait_for};

const ANSWER: Duration = Duration::from_secs(15);

/// A record as it goes on the wire.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub payload: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
}

/// The broker, and a plain producer for it.
pub struct Broker {
    servers: String,
    producer: FutureProducer,
    // Ends, and with the real one gives the turn away, when this is dropped.
    home: Home,
}

enum Home {
    Embedded { broker: embedded::Broker },
    Real { _turn: Turn },
}

impl Broker {
    /// A new broker in this process, with these topics.
    ///
    /// # Panics
    /// When librdkafka cannot.
    pub fn embedded(topics: &[(&str, i32)]) -> Self {
        let broker = embedded::Broker::start(topics).expect("the embedded broker starts");
        Self::at(broker.bootstrap_servers().to_owned(), Home::Embedded { broker })
    }

    /// The real one of the environment, whose topics belong to this test until it is dropped.
    ///
    /// # Panics
    /// When there is none, or topics cannot be made.
    pub fn real(topics: &[(&str, i32)]) -> Self {
        let turn = servers::turn();
        let broker = Self::at(servers::brokers(), Home::Real { _turn: turn });
        broker.make(topics);
        broker
    }

    fn at(servers: String, home: Home) -> Self {
        let producer = config(&servers).set("linger.ms", "2").create().expect("a producer can be made");
        Self { servers, producer, home }
    }

    /// The addresses, for `KAFKA_BROKERS`.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// Takes a partition's leader away, of an embedded one.
    ///
    /// # Panics
    /// It is a real one.
    pub fn behead(&self, topic: &str, partition: i32) {
        let Home::Embedded { broker } = &self.home else { panic!("a real broker leads") };
        let topic = topic.to_owned();
        let done = broker.with(move |cluster| cluster.partition_leader(&topic, partition, None));
        done.expect("it runs").expect("the partition is there");
    }

    /// Whether it is a real one.
    pub fn is_real(&self) -> bool {
        matches!(self.home, Home::Real { .. })
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        config(&self.servers).create().expect("an admin client can be made")
    }

    /// Deletes a topic with all that is in it, and makes it anew.
    ///
    /// # Panics
    /// When the broker does not.
    pub fn remake(&self, topic: &str, partitions: i32) {
        let (admin, deadline) = (self.admin(), Instant::now() + PATIENCE);
        let deleted = wait_for(admin.delete_topics(&[topic], &AdminOptions::new())).expect("the broker answers");
        assert!(matches!(deleted[..], [Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition))]), "{deleted:?}");
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        loop {
            let made = wait_for(admin.create_topics([&new], &AdminOptions::new())).expect("the broker answers");
            match &made[..] {
                [Ok(_)] => return self.know(topic, partitions),
                // It is still being deleted.
                [Err((_, RDKafkaErrorCode::TopicAlreadyExists))] if Instant::now() < deadline => {}
                _ => panic!("topic {topic} cannot be made: {made:?}"),
            }
        }
    }

    /// Adds partitions to a topic.
    ///
    /// # Panics
    /// When the broker does not.
    pub fn grow(&self, topic: &str, partitions: i32) {
        let more = NewPartitions::new(topic, usize::try_from(partitions).expect("a count"));
        let grown = wait_for(self.admin().create_partitions([&more], &AdminOptions::new())).expect("an answer");
        assert!(matches!(grown[..], [Ok(_)]), "{grown:?}");
        self.know(topic, partitions);
    }

    /// Waits until the producer knows the partitions.
    fn know(&self, topic: &str, partitions: i32) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let known = self.producer.client().fetch_metadata(Some(topic), ANSWER).expect("the broker answers");
            let led = |topic: &rdkafka::metadata::MetadataTopic| {
                topic.partitions().iter().filter(|partition| partition.leader() >= 0).count()
            };
            if known.topics().first().map(led) == usize::try_from(partitions).ok() {
                return;
            }
            assert!(Instant::now() < deadline, "the partitions of {topic} are not there");
        }
    }

    fn make(&self, topics: &[(&str, i32)]) {
        let admin = self.admin();
        let new: Vec<_> = topics
            .iter()
            .map(|(name, partitions)| NewTopic::new(name, *partitions, TopicReplication::Fixed(1)))
            .collect();
        let made = wait_for(admin.create_topics(&new, &AdminOptions::new())).expect("the broker answers");
        for result in made {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, why)) => panic!("topic {topic} cannot be made: {why}"),
            }
        }
    }

    /// Sets a topic's settings; those that are not named get their defaults.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn configure(&self, topic: &str, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> =
            config(&self.servers).create().expect("an admin client can be made");
        let wanted = settings
            .iter()
            .fold(AlterConfig::new(ResourceSpecifier::Topic(topic)), |config, (name, value)| config.set(name, value));
        let done = wait_for(admin.alter_configs([&wanted], &AdminOptions::new())).expect("the broker answers");
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        let deadline = Instant::now() + PATIENCE;
        let topic = [&ResourceSpecifier::Topic(topic)];
        // The controller knows it at once, and the broker a moment later.
        let is_set = || {
            let told = wait_for(admin.describe_configs(topic, &AdminOptions::new())).expect("the broker answers");
            let told = told[0].as_ref().expect("the topic is there");
            settings.iter().all(|(name, value)| told.get(name).and_then(|entry| entry.value.as_deref()) == Some(value))
        };
        while !is_set() {
            assert!(Instant::now() < deadline, "the topic's settings do not change");
        }
    }

    /// Writes one message in a transaction of its own, and calls `open` before that is committed.
    ///
    /// # Panics
    /// When it is not committed.
    pub fn send_in_transaction(&self, topic: &str, payload: &[u8], open: impl FnOnce()) {
        let producer: BaseProducer =
            config(&self.servers).set("transactional.id", fresh("test")).create().expect("a producer can be made");
        producer.init_transactions(ANSWER).expect("the broker answers");
        producer.begin_transaction().expect("it begins");
        producer.send(BaseRecord::<(), [u8]>::to(topic).payload(payload)).expect("there is room");
        producer.flush(ANSWER).expect("it is in the log");
        open();
        producer.commit_transaction(ANSWER).expect("it is committed");
    }

    /// Writes the records in their order and waits until all are in the log; their offsets.
    ///
    /// # Panics
    /// When one is not delivered.
    pub fn send(&self, topic: &str, records: &[Wire]) -> Vec<i64> {
        let reports: Vec<_> = records.iter().map(|record| self.enqueue(topic, record)).collect();
        let offset = async |report: rdkafka::producer::future_producer::DeliveryFuture| {
            report.await.expect("the producer lives").expect("the record is delivered").offset
        };
        wait_for(async {
            let mut offsets = Vec::new();
            for report in reports {
                offsets.push(offset(report).await);
            }
            offsets
        })
    }

    fn enqueue(&self, topic: &str, record: &Wire) -> rdkafka::producer::future_producer::DeliveryFuture {
        let headers = record
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let mut wire = FutureRecord::to(topic).partition(record.partition).headers(headers);
        wire.key = record.key.as_ref();
        wire.payload = record.payload.as_ref();
        self.producer.send_result(wire).map_err(|(why, _)| why).expect("the producer's queue has room")
    }

    /// Lets a new group begin behind everything that is in the topic: earlier tests' messages.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub fn begin_at_end(&self, group: &str, topic: &str, partitions: i32) {
        self.rewind(group, topic, &self.ends(topic, partitions));
    }

    /// Sets the offsets of a group without members, from partition 0.
    ///
    /// # Panics
    /// When the broker does not.
    pub fn rewind(&self, group: &str, topic: &str, offsets: &[i64]) {
        let consumer = self.consumer(group);
        let mut list = TopicPartitionList::new();
        for (partition, offset) in (0..).zip(offsets) {
            list.add_partition_offset(topic, partition, Offset::Offset(*offset)).expect("not below the first offset");
        }
        let deadline = Instant::now() + PATIENCE;
        while let Err(why) = consumer.commit(&list, CommitMode::Sync) {
            // A broker that has just started has no coordinator for the group yet.
            assert!(Instant::now() < deadline, "the group's offsets cannot be set: {why}");
            let _ = consumer.poll(Duration::from_millis(200));
        }
    }

    /// Deletes all that the broker knows of a group without members, its offsets among it.
    ///
    /// # Panics
    /// When the broker does not.
    pub fn forget(&self, group: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let gone =
                wait_for(self.admin().delete_groups(&[group], &AdminOptions::new())).expect("the broker answers");
            match &gone[0] {
                Ok(_) => return,
                // The last member has just left.
                Err((_, why)) => assert!(Instant::now() < deadline, "the group cannot be deleted: {why}"),
            }
        }
    }

    fn consumer(&self, group: &str) -> BaseConsumer {
        config(&self.servers).set("group.id", group).create().expect("a consumer can be made")
    }

    /// The offsets that the next messages of a topic get, from partition 0.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub fn ends(&self, topic: &str, partitions: i32) -> Vec<i64> {
        let consumer: BaseConsumer = config(&self.servers).create().expect("a consumer can be made");
        let deadline = Instant::now() + PATIENCE;
        let end = |partition| loop {
            match consumer.fetch_watermarks(topic, partition, ANSWER) {
                Ok((_, end)) => return end,
                // A broker that has just started does not lead its partitions yet.
                Err(why) => assert!(Instant::now() < deadline, "the broker does not know the log's end: {why}"),
            }
        };
        (0..partitions).map(end).collect()
    }

    /// The group's committed offsets of a topic, from partition 0; -1 where there is none.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let consumer = self.consumer(group);
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let found = consumer.committed_offsets(list, ANSWER).expect("the broker knows the group's offsets");
        found.elements().iter().map(|element| element.offset().to_raw().filter(|raw| *raw >= 0).unwrap_or(-1)).collect()
    }
}

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("message.timeout.ms", "30000");
    config
}
