//! An owner that slept longer than its session lasts, while another one went on. On real Kafka alone.

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use idempotent_jobs::Coordinates;
use idempotent_jobs::dead_letters::LetterState::{Open, Parked, Redriven};
use tests::PATIENCE;
use tests::child::Child;
use tests::database::Kind;
use tests::events::Seen;
use tests::world::World;

use super::jobs::PARKING;
use super::kills::{of_a, wire};

/// Between two messages for a member that has yet to join again.
const DRIP: Duration = Duration::from_millis(100);

fn member(world: &World, good: bool) -> Child {
    let mut command = world.command(&[]);
    command.env("CHILD_CONCURRENCY", "1");
    if good {
        command.env("CHILD_GOOD", "1");
    }
    world.start(command)
}

/// Feeds the other lane of both partitions until the member works on what came after it woke.
fn works_again(world: &World, member: &Child) {
    let before = world.broker.ends(PARKING.0, PARKING.1);
    let later = |at: &Coordinates| at.offset >= before[usize::try_from(at.partition).expect("not negative")];
    let works = |seen: &Seen| {
        let mut its = seen.events.iter().filter(|event| event.source == member.source && later(&event.at));
        its.any(|event| event.point == Point::Committed)
    };
    let (deadline, mut next) = (Instant::now() + PATIENCE, 1_000);
    while !world.events.wait_briefly(DRIP, works) {
        assert!(Instant::now() < deadline, "it works no more:\n{}", world.events.seen().describe());
        let on_1 = tests::broker::Wire { partition: 1, ..wire("c", next + 1, "plain") };
        world.put(&[wire("c", next, "plain"), on_1]);
        next += 2;
    }
}

/// It had the whole lane in memory, of which it did the first message; the other found that the second dies.
pub fn what_it_had_in_memory_does_not_run_ahead_of_the_one_that_died() {
    let world = World::of(Kind::Postgres, PARKING);
    let mut sleeper = member(&world, false);
    sleeper.halt_at(Point::Committed, 1);
    world.put(&[wire("a", 1, "plain"), wire("a", 2, "terminal"), wire("a", 3, "plain"), wire("a", 4, "plain")]);
    world.put(&(11..15).map(|id| wire("b", id, "plain")).collect::<Vec<_>>());
    assert_eq!(sleeper.halted().partition, 0);
    sleeper.signal("STOP");
    let other = member(&world, false);
    world.settled(PATIENCE * 2);
    let stand = |world: &World| world.letters().into_iter().map(|letter| letter.state).collect::<Vec<_>>();
    assert_eq!((of_a(&world), stand(&world)), (vec![1], vec![Open, Parked, Parked]));

    sleeper.go();
    sleeper.signal("CONT");
    works_again(&world, &sleeper);
    world.put(&[wire("a", 5, "plain")]);
    world.settled(PATIENCE);
    assert_eq!((of_a(&world), stand(&world)), (vec![1], vec![Open, Parked, Parked, Parked]));
    sleeper.stop();
    other.stop();

    let mended = member(&world, true);
    world.ask();
    assert_eq!(world.answered(), [Redriven; 4]);
    mended.stop();
    assert_eq!(of_a(&world), [1, 2, 3, 4, 5]);
    world.assert_once();
}

/// It parked the lane itself, and the other let it go meanwhile.
pub fn a_lane_that_was_let_go_meanwhile_is_not_parked_again() {
    let world = World::of(Kind::Postgres, PARKING);
    let mut sleeper = member(&world, false);
    sleeper.halt_at(Point::Buried, 2);
    world.put(&[wire("a", 1, "plain"), wire("a", 2, "terminal"), wire("a", 3, "plain"), wire("a", 4, "plain")]);
    sleeper.halted();
    sleeper.signal("STOP");
    let other = member(&world, true);
    world.settled(PATIENCE * 2);
    world.ask();
    assert_eq!(world.answered(), [Redriven; 3]);
    world.put(&[wire("a", 5, "plain")]);
    world.settled(PATIENCE);

    sleeper.go();
    sleeper.signal("CONT");
    works_again(&world, &sleeper);
    world.put(&[wire("a", 6, "plain")]);
    world.settled(PATIENCE);
    sleeper.stop();
    other.stop();
    assert_eq!(world.letters().len(), 3);
    assert_eq!(of_a(&world), [1, 2, 3, 4, 5, 6], "in order, each once");
    world.assert_once();
}
