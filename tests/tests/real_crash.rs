//! A worker killed at each point of a message's life: real Kafka and PostgreSQL.

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use tests::crash::run;
use tests::database::Kind;
use tests::world::{CRASH, World};

/// DB-04 is in here: the connection is lost during COMMIT, before and after the server has it.
#[test]
fn nothing_is_lost_or_done_twice_wherever_the_process_is_struck() {
    let table = run(Kind::Postgres, 5, |row| println!("{row}"));
    assert!(table.is_good(), "{table:#?}");
}

#[test]
fn by_default_the_next_owner_works_within_ten_seconds_of_a_kill() {
    let world = World::real(CRASH);
    let first = world.start(world.command(&[]));
    world.joined(&first, tests::PATIENCE);
    let second = world.start(world.command(&[]));
    world.joined(&second, tests::PATIENCE);
    let source = second.source;
    first.kill();
    let killed = Instant::now();
    world.send(10_000..10_020);
    world.settled(tests::PATIENCE);
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(10), "the next owner was at work after {took:?}");
    assert!(world.events.seen().count(source, Point::Claimed) >= 10);
    second.stop();
    world.assert_once();
}
