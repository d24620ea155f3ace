use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::*;

/// Many partitions of several topics: two questions for all ends, and one client for all that are looked at.
#[tokio::test]
async fn ends_and_what_is_read_out_are_told_of_many_partitions() {
    const TOPICS: [&str; 2] = ["orders", "refunds"];
    let cluster = MockCluster::new(2).expect("a cluster");
    let properties = Properties::default().with_brokers(cluster.bootstrap_servers()).group("g");
    let mut config = rdkafka::ClientConfig::new();
    let producer: BaseProducer =
        config.set("bootstrap.servers", cluster.bootstrap_servers()).create().expect("a producer");
    for topic in TOPICS {
        cluster.create_topic(topic, 40, 1).expect("a topic");
        for number in 0..40 {
            producer.send(BaseRecord::<(), str>::to(topic).partition(number).payload("it")).expect("there is room");
        }
    }
    producer.flush(Duration::from_secs(10)).expect("it is sent");
    let topics = TOPICS.map(str::to_owned);
    let stands = stands(&properties, &topics, Duration::from_secs(10)).await.expect("the brokers answer");
    assert_eq!(stands.len(), 80);
    let new = Stand { start: 0, end: 1, committed: None, read: false };
    assert!(stands.values().all(|stand| *stand == new), "{stands:?}");

    let at = |((topic, number), stand): ((String, i32), Stand)| {
        let committed = Some(i64::from(number % 2));
        ((topic, number), Stand { committed, ..stand })
    };
    let read = read_out(&properties, stands.into_iter().map(at).collect(), Duration::from_secs(20)).await;
    assert!(read.iter().all(|(_, number)| number % 2 == 1), "a message lies there: {read:?}");
    assert_eq!(read.len(), 40);
}
