//! Members that come and go, on the embedded broker: CON-02, CON-13, CON-14, CON-15, CON-16.
//! The same at length is in `real_rebalance.rs`.

use tests::rebalance::{Plan, run};
use tests::world::{FLOW, World};

const PLAN: Plan = Plan { visits: 4, kill_every: 0, messages: 800 };

fn play(plan: Plan, properties: &[(&str, &str)]) {
    let world = World::embedded(FLOW);
    let seen = run(&world, plan, properties);
    println!("{plan:?} {properties:?}: {seen:?}, {:?}", world.count());
    assert!(seen.by_visitor > 0);
    world.assert_once();
}

#[test]
fn con_14_range_loses_and_doubles_nothing() {
    play(PLAN, &[("partition.assignment.strategy", "range")]);
}

#[test]
fn con_16_cooperative_sticky_reads_and_loses_nothing() {
    play(PLAN, &[("partition.assignment.strategy", "cooperative-sticky")]);
}

#[test]
fn con_02_the_consumer_protocol_loses_nothing_also_when_members_are_killed() {
    play(Plan { kill_every: 2, ..PLAN }, &[("group.protocol", "consumer")]);
}

/// CON-13: more than a lane holds is there when partitions move, so they move while paused.
#[test]
fn con_13_partitions_that_moved_while_paused_go_on() {
    play(Plan { visits: 1, kill_every: 0, messages: 20_000 }, &[("group.protocol", "consumer")]);
}
