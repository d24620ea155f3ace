use rdkafka::mocking::MockCluster;

use super::*;

fn topics(client: &BaseConsumer<Ear>, name: &str) -> Vec<Topic> {
    let all = client.fetch_metadata(Some(name), Duration::from_secs(10)).expect("the brokers answer");
    vec![topic(client, &all, name, Duration::from_secs(10))]
}

#[test]
fn one_silent_leader_costs_its_own_partitions_and_no_others() {
    let cluster = MockCluster::new(2).expect("a cluster");
    cluster.create_topic("orders", 6, 1).expect("a topic");
    for number in 0..6 {
        cluster.partition_leader("orders", number, Some(1 + number % 2)).expect("a leader");
    }
    let properties = Properties::default().with_brokers(cluster.bootstrap_servers()).group("g");
    let client = client(&properties.consumer().expect("it can be")).expect("a client");
    let known = topics(&client, "orders");
    let whole = Ends::look(&client, &known, Duration::from_secs(10));
    assert_eq!((whole.spans.len(), whole.unread.len()), (6, 0));

    cluster.broker_round_trip_time(2, Duration::from_secs(30)).expect("a slow broker");
    let ends = Ends::look(&client, &known, Duration::from_secs(3));
    let of = |numbers: [i32; 3]| numbers.map(|number| ("orders".to_owned(), number));
    assert_eq!(ends.spans.into_keys().collect::<Vec<_>>(), of([0, 2, 4]));
    assert_eq!(ends.unread.iter().map(|it| (it.topic.clone(), it.partition)).collect::<Vec<_>>(), of([1, 3, 5]));
    assert!(ends.unread.iter().all(|it| it.why.contains("Timed out")), "{:?}", ends.unread);
    assert_eq!(alike(&ends.unread).into_values().collect::<Vec<_>>(), [[1, 3, 5]]);
}
