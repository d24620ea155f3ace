//! Members that come and go twenty times while 20,000 messages flow, on real Kafka and
//! PostgreSQL: CON-02, CON-13, CON-14, CON-15, CON-16.

use tests::rebalance::{Plan, run};
use tests::world::{FLOW, World};

fn play(properties: &[(&str, &str)]) {
    let world = World::real(FLOW);
    let seen = run(&world, Plan { visits: 20, kill_every: 4, messages: 1_000 }, properties);
    let count = world.count();
    println!("{properties:?}: {seen:?}, {count:?}");
    assert!(count.sent >= 20_000 && seen.by_visitor > 0);
    world.assert_once();
}

#[test]
fn con_14_range_loses_and_doubles_nothing() {
    play(&[("partition.assignment.strategy", "range")]);
}

#[test]
fn con_16_cooperative_sticky_reads_and_loses_nothing() {
    play(&[("partition.assignment.strategy", "cooperative-sticky")]);
}

#[test]
fn con_02_the_consumer_protocol_loses_and_doubles_nothing() {
    play(&[("group.protocol", "consumer")]);
}
