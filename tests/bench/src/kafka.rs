//! The topics: made, filled, and given to a group from the start again.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::Failure;
use crate::load::Load;
use crate::message::nth;

pub const PARTITIONS: i32 = 8;

const ANSWER: Duration = Duration::from_secs(15);
const FLUSH: Duration = Duration::from_secs(120);
const FULL_QUEUE: Duration = Duration::from_millis(5);

/// The cluster.
pub struct Kafka {
    pub brokers: String,
}

impl Kafka {
    /// Makes a topic that keeps what it was given, however long the run takes.
    pub async fn make(&self, load: Load) -> Result<(), Failure> {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let topic = NewTopic::new(load.topic, PARTITIONS, TopicReplication::Fixed(1))
            .set("retention.ms", "-1")
            .set("retention.bytes", "-1");
        let options = AdminOptions::new().operation_timeout(Some(ANSWER));
        for made in admin.create_topics([&topic], &options).await? {
            made.map_err(|(topic, code)| format!("the topic {topic} cannot be made: {code}"))?;
        }
        Ok(())
    }

    /// Sends the messages from the `from`-th up to the load's last one, and sees them there.
    pub fn fill(&self, load: Load, from: u64) -> Result<(), Failure> {
        let producer: ThreadedProducer<DefaultProducerContext> =
            self.config().set("linger.ms", "50").set("queue.buffering.max.messages", "200000").create()?;
        for n in from..load.messages {
            let charge = nth(n);
            let (key, payload) = (charge.order_id.to_string(), serde_json::to_vec(&charge)?);
            send(&producer, BaseRecord::to(load.topic).key(&key).payload(&payload))?;
        }
        producer.flush(FLUSH)?;
        let there = self.there(load.topic)?;
        if there == load.messages {
            return Ok(());
        }
        Err(format!("{there} of {} messages are in the topic {}", load.messages, load.topic).into())
    }

    /// How many messages are in the topic.
    pub fn there(&self, topic: &str) -> Result<u64, Failure> {
        let consumer: BaseConsumer = self.config().create()?;
        let mut sum = 0;
        for partition in 0..PARTITIONS {
            let (first, next) = consumer.fetch_watermarks(topic, partition, ANSWER)?;
            sum += u64::try_from(next - first)?;
        }
        Ok(sum)
    }

    /// Lets the group, which has no members, read the topic from its start.
    pub fn rewind(&self, group: &str, topic: &str) -> Result<(), Failure> {
        let consumer: BaseConsumer = self.config().set("group.id", group).create()?;
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Offset(0))?;
        }
        let deadline = Instant::now() + ANSWER;
        while let Err(why) = consumer.commit(&list, CommitMode::Sync) {
            // A broker that has just started has no coordinator for the group yet.
            if Instant::now() >= deadline {
                return Err(format!("the offsets of {group} cannot be set: {why}").into());
            }
            let _ = consumer.poll(Duration::from_millis(200));
        }
        Ok(())
    }

    /// How many messages of the topic the group has committed.
    pub fn settled(&self, group: &str, topic: &str) -> Result<u64, Failure> {
        let consumer: BaseConsumer = self.config().set("group.id", group).create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, PARTITIONS - 1);
        let committed = consumer.committed_offsets(list, ANSWER)?;
        let offsets = committed.elements().iter().filter_map(|partition| partition.offset().to_raw()).sum::<i64>();
        Ok(u64::try_from(offsets)?)
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }
}

fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    record: BaseRecord<'_, String, Vec<u8>>,
) -> Result<(), Failure> {
    let mut unsent = Some(record);
    while let Some(record) = unsent.take() {
        match producer.send(record) {
            Ok(()) => {}
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), record)) => {
                std::thread::sleep(FULL_QUEUE);
                unsent = Some(record);
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
    Ok(())
}
