//! PostgreSQL or Kafka goes away while jobs run, and comes back.

use std::time::Duration;

use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::proxy::Proxy;
use tests::servers::Outage;
use tests::world::{CRASH, World};

/// Longer than what clients wait for an answer, and than a session of the group lasts.
const LONG: Duration = Duration::from_secs(30);

/// Jobs here have three attempts with waits of at most 50 ms: an outage of seconds would use them
/// up many times if it cost any.
#[test]
fn an_outage_of_the_database_costs_no_attempt_and_everything_completes() {
    let world = World::real(CRASH);
    let proxy = Proxy::to(world.database.url());
    let mut command = world.command(world.quick());
    command.env("DATABASE_URL", proxy.url(world.database.url()));
    let child = world.start(command);
    let source = child.source;
    for outage in 0..3 {
        world.send(outage * 200..(outage + 1) * 200);
        let before = usize::try_from(outage * 200).expect("small") + 20;
        world.events.wait_count(source, Point::Committed, before);
        proxy.cut();
        // The outage itself, not a wait for anything.
        world.events.wait_briefly(Duration::from_secs(4), |seen| seen.has_ended(source));
        proxy.mend();
        world.settled(PATIENCE);
    }
    child.stop();
    world.assert_once();
}

/// The server itself, so that it also has to recover what it had, and to refuse while it does.
#[test]
fn the_database_is_stopped_for_half_a_minute_and_nothing_is_given_up() {
    goes_on_behind(Outage::of_postgres);
}

#[test]
fn the_broker_is_stopped_for_half_a_minute_and_nothing_is_given_up() {
    goes_on_behind(Outage::of_kafka);
}

fn goes_on_behind(outage: impl FnOnce() -> Outage) {
    const MESSAGES: i64 = 5_000;
    let world = World::real(CRASH);
    let children = [world.start(world.command(&[])), world.start(world.command(&[]))];
    world.send(0..MESSAGES);
    world.events.wait("the work to begin", PATIENCE, |seen| (seen.total(Point::Committed) > 200).then_some(()));
    let outage = outage();
    // The outage itself, not a wait for anything.
    world.events.wait_briefly(LONG, |seen| seen.deserter().is_some());
    outage.end();
    world.send(MESSAGES..MESSAGES + 100);
    world.settled(PATIENCE * 2);
    children.into_iter().for_each(tests::child::Child::stop);
    world.assert_once();
    assert!(world.letters().is_empty(), "no attempt was used up: each has three, a few milliseconds apart");
}
