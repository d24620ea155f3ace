//! What the show itself asks Kafka: the topic, and how far the group is.

use std::time::Duration;

use idempotent_jobs::JobMessage as _;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use crate::Failure;
use crate::jobs::Order;
use crate::place::{PARTITIONS, Place};

const PATIENCE: Duration = Duration::from_secs(10);

/// A client that looks at the group and is no member of it.
pub struct Cluster(BaseConsumer);

impl Cluster {
    /// Makes the topic if it is not there.
    pub async fn open(place: &Place) -> Result<Self, Failure> {
        let config = config(place);
        if place.embedded.is_none() {
            create_topic(&config.create()?).await?;
        }
        Ok(Self(config.create()?))
    }

    /// How many messages the group has not settled.
    pub fn unsettled(&self) -> KafkaResult<i64> {
        let partitions = self.partitions()?;
        let committed = self.0.committed_offsets(partitions, PATIENCE)?;
        committed.elements().iter().map(|partition| self.behind(partition.partition(), partition.offset())).sum()
    }

    fn behind(&self, partition: i32, committed: Offset) -> KafkaResult<i64> {
        let (first, next) = self.0.fetch_watermarks(Order::TOPIC, partition, PATIENCE)?;
        let settled = if let Offset::Offset(offset) = committed { offset.max(first) } else { first };
        Ok((next - settled).max(0))
    }

    fn partitions(&self) -> KafkaResult<TopicPartitionList> {
        let metadata = self.0.fetch_metadata(Some(Order::TOPIC), PATIENCE)?;
        let mut list = TopicPartitionList::new();
        for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
            list.add_partition(Order::TOPIC, partition.id());
        }
        Ok(list)
    }
}

async fn create_topic(admin: &AdminClient<DefaultClientContext>) -> Result<(), Failure> {
    const REPLICAS_BY_THE_BROKERS_DEFAULT: i32 = -1;
    let topic = NewTopic::new(Order::TOPIC, PARTITIONS, TopicReplication::Fixed(REPLICAS_BY_THE_BROKERS_DEFAULT));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    for made in admin.create_topics([&topic], &options).await.map_err(|error| format!("Kafka: {error}"))? {
        match made {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => return Err(format!("the topic {topic} cannot be made: {code}").into()),
        }
    }
    Ok(())
}

fn config(place: &Place) -> ClientConfig {
    let mut config = ClientConfig::new();
    if place.embedded.is_none() {
        config.extend(std::env::vars().filter_map(connection));
    }
    config.set("bootstrap.servers", &place.brokers).set("group.id", &place.group).set("enable.auto.commit", "false");
    config
}

/// `KAFKA_SASL_MECHANISM` and the like: how to connect, as the worker reads it too.
fn connection((name, value): (String, String)) -> Option<(String, String)> {
    let property = name.strip_prefix("KAFKA_")?.to_ascii_lowercase().replace('_', ".");
    ["security.", "sasl.", "ssl."].iter().any(|kind| property.starts_with(kind)).then_some((property, value))
}
