//! Members of one group on real Kafka and PostgreSQL: killed, asleep, slow, side by side.

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::world::{CRASH, World};

#[test]
fn by_default_the_next_owner_works_within_ten_seconds_of_a_kill() {
    let world = World::real(CRASH);
    let first = world.start(world.command(&[]));
    world.joined(&first, PATIENCE);
    let second = world.start(world.command(&[]));
    world.joined(&second, PATIENCE);
    let source = second.source;
    first.kill();
    let killed = Instant::now();
    world.send(10_000..10_020);
    world.settled(PATIENCE);
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(10), "the next owner was at work after {took:?}");
    assert!(world.events.seen().count(source, Point::Claimed) >= 10);
    second.stop();
    world.assert_once();
}

/// Static membership: within its session a named member comes back to its own partitions.
#[test]
fn a_named_member_is_back_after_a_kill_and_the_others_notice_nothing() {
    let world = World::real(CRASH);
    let start = |name| world.start(world.command(&[("group.instance.id", name), ("session.timeout.ms", "30000")]));
    let first = start("one");
    world.joined(&first, PATIENCE);
    let second = start("two");
    world.joined(&second, PATIENCE);
    world.settled(PATIENCE);
    let rebalances = |source| {
        let seen = world.events.seen();
        let of = |line: &str| ["partitions assigned", "partitions revoked"].iter().any(|words| line.contains(words));
        seen.said.iter().filter(|(who, line)| *who == source && of(line)).count()
    };
    let before = rebalances(second.source);
    assert!(before > 0, "the programs tell what they are assigned");
    first.kill();
    let killed = Instant::now();
    let back = start("one");
    world.send(10_000..10_020);
    world.settled(PATIENCE);
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(20), "back at work after {took:?}, when the session may have ended");
    assert_eq!(rebalances(second.source), before, "{}", world.events.seen().describe());
    assert_eq!(world.events.seen().count(back.source, Point::Claimed), 10, "one of the two partitions");
    back.stop();
    second.stop();
    world.assert_once();
}

/// A message that still runs holds the offset of its partition and of no other, whatever is done
/// behind it.
#[test]
fn con_01_an_offset_waits_for_the_message_that_still_runs() {
    let world = World::real(CRASH);
    let before = world.broker.committed(&world.group, CRASH.0, CRASH.1);
    let mut child = world.child();
    child.halt_at(Point::Handled, 1);
    world.send([0]);
    child.halted();
    world.send([2, 4, 6, 1, 3, 5]);
    // Those behind it have no Kafka key and so are in lanes of their own.
    world.events.wait_count(child.source, Point::Committed, 6);
    let on_1 = before[1] + 2;
    world
        .events
        .wait("partition 1 to be committed", PATIENCE, |seen| seen.is_committed(CRASH.0, 1, on_1).then_some(()));
    assert_eq!(world.broker.committed(&world.group, CRASH.0, CRASH.1), [before[0], before[1] + 3]);
    child.kill();
    let next = world.child();
    world.settled(PATIENCE);
    next.stop();
    world.assert_once();
}

/// SIGSTOP in the middle of its work, longer than its session and its transaction may last.
#[test]
fn con_08_a_process_that_slept_changes_nothing_when_it_wakes() {
    let world = World::real(CRASH);
    let first = world.start(world.command(&[]));
    world.joined(&first, PATIENCE);
    let second = world.start(world.command(&[]));
    world.joined(&second, PATIENCE);
    let before = world.events.seen().count(first.source, Point::Claimed);
    world.send_doing(10_000..10_040, &json!({ "slow": 50 }));
    world.events.wait_count(first.source, Point::Claimed, before + 3);
    first.signal("STOP");
    world.settled(PATIENCE * 2);
    let source = second.source;
    assert!(world.events.seen().count(source, Point::Committed) >= 20);
    first.signal("CONT");
    world.send(20_000..20_020);
    world.settled(PATIENCE);
    first.stop();
    second.stop();
    world.assert_once();
}

/// Each key is on both partitions, and each partition with another process.
#[test]
fn ded_11_the_same_keys_in_two_processes_at_once_run_once() {
    const KEYS: i64 = 1_000;
    let world = World::real(CRASH);
    let (one, other) = (world.start(world.command(&[])), world.start(world.command(&[])));
    world.joined(&one, PATIENCE);
    world.joined(&other, PATIENCE);
    let copy = |partition, id| {
        let payload = json!({ "id": id, "does": "plain" }).to_string().into_bytes();
        Wire { partition, payload: Some(payload), ..Wire::default() }
    };
    world.put(&(KEYS..2 * KEYS).flat_map(|id| [copy(0, id), copy(1, id)]).collect::<Vec<_>>());
    world.settled(PATIENCE);
    one.stop();
    other.stop();
    let mut ids = world.database.ids("crash_postgres");
    ids.retain(|id| *id >= KEYS);
    ids.sort_unstable();
    assert_eq!(ids, (KEYS..2 * KEYS).collect::<Vec<_>>());
}
