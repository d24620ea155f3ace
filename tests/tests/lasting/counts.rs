//! Attempts that are counted once, whoever makes them.

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use serde_json::json;
use tests::PATIENCE;
use tests::child::Child;
use tests::database::Kind;
use tests::world::{CRASH, World};

use super::left;

const BAD: i64 = 1_000;

/// The attempts of the message that were told, in their order.
fn attempts(world: &World) -> Vec<String> {
    let seen = world.events.seen();
    let told = seen.said.iter().filter_map(|(_, line)| line.strip_suffix(&format!(" of {BAD}")));
    told.map(str::to_owned).collect()
}

fn exhausted_by(world: &World) {
    let last = world.child();
    world.settled(PATIENCE);
    last.stop();
    let letter = world.letter();
    assert_eq!((&*letter.reason, letter.attempts), ("exhausted", 3), "{}", letter.error);
    assert_eq!(attempts(world), ["attempt 1", "attempt 2", "attempt 3"]);
    assert_eq!((left(world, "attempts"), left(world, "owners")), (0, 0));
}

/// Three attempts are three, each by another process that was asked to end.
pub fn a_restart_does_not_count_anew(kind: Kind) {
    let world = World::of(kind, CRASH);
    world.send_doing([BAD], &json!("fail"));
    for _ in 0..2 {
        let mut child = halted_in_an_attempt(&world, 1);
        child.terminate();
        child.go();
        child.stop();
        assert_eq!((left(&world, "attempts"), left(&world, "owners")), (1, 0), "kept, and let go");
    }
    exhausted_by(&world);
}

/// Each was killed in the next attempt, before its handler was entered.
pub fn a_kill_does_not_make_attempts_count_anew(kind: Kind) {
    let world = World::of(kind, CRASH);
    world.send_doing([BAD], &json!("fail"));
    for _ in 0..2 {
        halted_in_an_attempt(&world, 2).kill();
    }
    exhausted_by(&world);
}

/// At the claim of the `nth` attempt it makes.
fn halted_in_an_attempt(world: &World, nth: usize) -> Child {
    let mut command = world.command(world.quick());
    command.env("CHILD_HALT", tests::events::word(Point::Claimed)).env("CHILD_HALT_NTH", nth.to_string());
    let child = world.start(command);
    child.heard("halted");
    child
}

/// Its successor waits for the rest of the time.
pub fn a_snooze_survives_its_process(kind: Kind, killed: bool) {
    const SNOOZE: Duration = Duration::from_secs(8);
    const LOOK: Duration = Duration::from_millis(100);
    let world = World::of(kind, CRASH);
    world.send_doing([BAD], &json!({ "snooze": SNOOZE.as_millis() }));
    let child = world.child();
    child.heard("snoozes 1000");
    let began = Instant::now();
    while left(&world, "attempts") == 0 {
        assert!(began.elapsed() < PATIENCE, "it is noted");
        world.events.wait_briefly(LOOK, |_| false);
    }
    if killed {
        child.kill();
    } else {
        child.stop();
    }
    let mut command = world.command(world.quick());
    command.env("CHILD_GOOD", "1");
    let next = world.start(command);
    next.heard_of(Point::Committed, 1);
    assert!(began.elapsed() >= SNOOZE - Duration::from_secs(1), "after {:?}", began.elapsed());
    world.settled(PATIENCE);
    next.stop();
    world.assert_once();
    assert_eq!((left(&world, "attempts"), left(&world, "owners")), (0, 0));
}

/// Once its partitions are its own, a good message needs neither table: they are not there.
pub fn what_goes_well_is_not_noted(kind: Kind) {
    let world = World::of(kind, CRASH);
    let child = world.child();
    world.send(0..20);
    world.settled(PATIENCE);
    for table in ["attempts", "owners"] {
        let (from, to) = match kind {
            Kind::Sqlite => (format!("idempotent_jobs_{table}"), format!("gone_{table}")),
            Kind::Postgres => (format!("idempotent_jobs.{table}"), format!("gone_{table}")),
        };
        world.database.run(&format!("ALTER TABLE {from} RENAME TO {to}"));
    }
    world.send(20..520);
    world.settled(PATIENCE);
    world.assert_once();
    assert_eq!(world.events.seen().count(child.source, Point::Claimed), 520, "each at once");
    child.kill();
}
