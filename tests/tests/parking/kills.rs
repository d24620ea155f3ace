//! Processes killed around a lane that waits.

use idempotent_jobs::__private::Point;
use idempotent_jobs::dead_letters::LetterState::{self, Open, Parked, Redriven, Requested};
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::child::Child;
use tests::database::Kind;
use tests::world::World;

use super::jobs::PARKING;

pub fn wire(lane: &str, id: i64, does: &str) -> Wire {
    let payload = json!({ "id": id, "does": does }).to_string().into_bytes();
    Wire { key: Some(lane.into()), payload: Some(payload), ..Wire::default() }
}

/// Sends a lane whose second message dies, and one beside it.
fn put(world: &World) {
    let does = |id| if id == 2 { "terminal" } else { "plain" };
    world.put(&(1..6).flat_map(|id| [wire("a", id, does(id)), wire("b", id + 10, "plain")]).collect::<Vec<_>>());
    world.sent_too(&(1..6).flat_map(|id| [id, id + 10]).collect::<Vec<_>>());
}

pub fn start(world: &World, good: bool) -> Child {
    let mut command = world.command(world.quick());
    if good {
        command.env("CHILD_GOOD", "1");
    }
    world.start(command)
}

pub fn of_a(world: &World) -> Vec<i64> {
    let job = format!("parking_{}", world.database.kind);
    world.database.ids(&job).into_iter().filter(|id| *id < 10).collect()
}

fn states(world: &World) -> Vec<LetterState> {
    world.letters().into_iter().map(|letter| letter.state).collect()
}

/// In the middle of a run of each letter.
fn killed_in_redrives(world: &World) {
    for (point, nth, expected) in [
        (Point::Claimed, 1, [Requested, Parked, Parked, Parked]),
        (Point::Handled, 1, [Requested, Parked, Parked, Parked]),
        (Point::Claimed, 2, [Redriven, Requested, Parked, Parked]),
        (Point::Handled, 3, [Redriven, Redriven, Redriven, Requested]),
    ] {
        let mut command = world.command(world.quick());
        command
            .env("CHILD_GOOD", "1")
            .env("CHILD_HALT", tests::events::word(point))
            .env("CHILD_HALT_NTH", nth.to_string());
        let child = world.start(command);
        child.heard("halted");
        child.kill();
        assert_eq!(states(world), expected, "{point:?} {nth}");
    }
}

/// Behind each letter that is written, and then in the middle of a run of each.
pub fn killed_anywhere_a_lane_keeps_its_order(kind: Kind) {
    for nth in 1..4 {
        let world = World::of(kind, PARKING);
        let mut child = start(&world, false);
        child.halt_at(Point::Buried, nth);
        put(&world);
        child.halted();
        child.kill();
        let next = start(&world, false);
        world.settled(PATIENCE);
        next.stop();
        assert_eq!((of_a(&world), states(&world)), (vec![1], vec![Open, Parked, Parked, Parked]), "{nth}");

        world.ask();
        // Each of these costs the time for which a dead process's run of a letter is respected.
        if nth == 1 {
            killed_in_redrives(&world);
        }
        let last = start(&world, true);
        assert_eq!(world.answered(), [Redriven; 4]);
        last.stop();
        assert_eq!(of_a(&world), [1, 2, 3, 4, 5], "in order");
        world.assert_once();
    }
}
