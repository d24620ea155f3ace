//! PostgreSQL goes away while jobs run, and comes back.

use std::time::Duration;

use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::proxy::Proxy;
use tests::world::{CRASH, World};

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
