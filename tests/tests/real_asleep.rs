//! An owner that slept longer than its session lasts, on real Kafka and PostgreSQL: CON-08. When
//! it wakes, it starts nothing of what it had queued.

use std::process::Command;

use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::child::Child;
use tests::world::{CRASH, World};

/// Messages of each partition that wait in the sleeper's lanes.
const QUEUED: i64 = 1_000;

/// What happens around the sleep.
struct Night {
    world: World,
    sleeper: Child,
    /// The log's ends before it fell asleep.
    ends: Vec<i64>,
}

fn member(world: &World, concurrency: usize, more: impl FnOnce(&mut Command)) -> Child {
    let mut command = world.command(&[]);
    command.env("CHILD_CONCURRENCY", concurrency.to_string());
    more(&mut command);
    world.start(command)
}

impl Night {
    /// A member with both partitions, and messages in its lanes; `stop` says when it falls asleep.
    fn fall(concurrency: usize, stop: impl FnOnce(&mut Child, &World)) -> Self {
        let world = World::real(CRASH);
        let mut sleeper = member(&world, concurrency, |_| {});
        world.joined(&sleeper, PATIENCE);
        world.settled(PATIENCE);
        stop(&mut sleeper, &world);
        sleeper.signal("STOP");
        let ends = world.broker.ends(CRASH.0, CRASH.1);
        Self { world, sleeper, ends }
    }

    /// Another member does everything; then the sleeper wakes, and works on what comes later.
    /// Points of the messages that it had queued, passed after it woke.
    fn pass(mut self, wake: impl FnOnce(&mut Child)) -> Vec<Point> {
        let other = member(&self.world, 10, |_| {});
        self.world.settled(PATIENCE * 2);
        let before = self.world.events.seen().events.len();
        let source = self.sleeper.source;
        wake(&mut self.sleeper);
        self.sleeper.signal("CONT");
        let later = |at: &idempotent_jobs::Coordinates| {
            usize::try_from(at.partition).is_ok_and(|partition| at.offset >= self.ends[partition])
        };
        let mut id = 1_000_000;
        let works = |seen: &tests::events::Seen| {
            let mut woken = seen.events[before..].iter().filter(|event| event.source == source);
            woken.any(|event| event.point == Point::Committed && later(&event.at))
        };
        let deadline = std::time::Instant::now() + PATIENCE;
        while !self.world.events.wait_briefly(std::time::Duration::from_millis(100), works) {
            assert!(
                std::time::Instant::now() < deadline,
                "it does not work again:\n{}",
                self.world.events.seen().describe()
            );
            self.world.send(id..id + 2);
            id += 2;
        }
        self.world.settled(PATIENCE);
        self.sleeper.stop();
        other.stop();
        self.world.assert_once();
        let seen = self.world.events.seen();
        let old = seen.events[before..].iter().filter(|event| event.source == source && !later(&event.at));
        old.filter(|event| event.point != Point::OffsetCommitted).map(|event| event.point).collect()
    }
}

fn fill(world: &World) {
    world.send(10_000..10_000 + 2 * QUEUED);
}

/// It has committed a message and already taken the next one, for which a transaction is open.
#[test]
fn con_08_a_message_taken_ahead_is_not_started_after_waking() {
    let night = Night::fall(1, |child, world| {
        child.halt_at(Point::Committed, 40);
        fill(world);
        child.halted();
    });
    let passed = night.pass(Child::go);
    assert_eq!(passed, [], "nothing of what it had queued was run or looked at");
}

/// All its workers are in the middle of something.
#[test]
fn con_08_at_most_what_ran_is_ended_after_waking() {
    const WORKERS: usize = 8;
    let night = Night::fall(WORKERS, |child, world| {
        let before = world.events.seen().count(child.source, Point::Committed);
        fill(world);
        world.events.wait_count(child.source, Point::Committed, before + 100);
    });
    let passed = night.pass(|_| {});
    println!("after waking: {passed:?}");
    let of = |points: &[Point]| passed.iter().filter(|point| points.contains(point)).count();
    assert!(of(&[Point::Claimed, Point::Skipped]) <= WORKERS, "{passed:?}");
}

/// The same keys and messages in shared transactions, of which a worker has more than one before it.
#[test]
fn con_08_a_shared_transaction_is_not_begun_after_waking() {
    let world = World::real(("ordered_shared", 8));
    let record = |id: i64| Wire {
        partition: i32::try_from(id % 8).expect("less than the partitions"),
        key: Some((id % 80).to_string().into_bytes()),
        payload: Some(serde_json::json!({ "id": id, "seed": 0 }).to_string().into_bytes()),
        ..Wire::default()
    };
    let put = |ids: std::ops::Range<i64>| {
        world.put(&ids.clone().map(record).collect::<Vec<_>>());
        world.sent_too(&ids.collect::<Vec<_>>());
    };
    let mut sleeper = member(&world, 1, |_| {});
    put(0..80);
    world.settled(PATIENCE);
    sleeper.halt_at(Point::Committed, 40);
    put(80..2_000);
    sleeper.halted();
    sleeper.signal("STOP");
    let other = member(&world, 10, |_| {});
    world.settled(PATIENCE * 2);
    let before = world.events.seen().events.len();
    let source = sleeper.source;
    sleeper.go();
    sleeper.signal("CONT");
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut id = 2_000;
    let new = |seen: &tests::events::Seen| {
        let mut woken = seen.events[before..].iter().filter(|event| event.source == source);
        woken.any(|event| event.point == Point::Claimed)
    };
    while !world.events.wait_briefly(std::time::Duration::from_millis(100), new) {
        assert!(std::time::Instant::now() < deadline, "it does not work again");
        put(id..id + 8);
        id += 8;
    }
    world.settled(PATIENCE);
    sleeper.stop();
    other.stop();
    world.assert_once();
    let seen = world.events.seen();
    let skipped =
        seen.events[before..].iter().filter(|event| event.source == source && event.point == Point::Skipped).count();
    assert_eq!(skipped, 0, "what the other did was not tried again");
}
