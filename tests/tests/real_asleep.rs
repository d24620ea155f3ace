//! An owner that slept longer than its session lasts, on real Kafka and PostgreSQL: CON-08. When
//! it wakes, it starts nothing of what it had queued.

use std::ops::Range;
use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use idempotent_jobs::Coordinates;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::child::Child;
use tests::events::Seen;
use tests::order::Way;
use tests::world::World;

/// Messages that wait in the sleeper's lanes.
const QUEUED: i64 = 2_000;
/// Between two messages for a member that has yet to join again.
const DRIP: Duration = Duration::from_millis(100);

/// What happens around the sleep.
struct Night {
    world: World,
    sleeper: Child,
    /// The log's ends when it fell asleep.
    ends: Vec<i64>,
}

fn member(world: &World, concurrency: usize) -> Child {
    let mut command = world.command(&[]);
    command.env("CHILD_CONCURRENCY", concurrency.to_string()).env("RUST_LOG", "error");
    world.start(command)
}

fn put(world: &World, ids: Range<i64>) {
    let ids: Vec<i64> = ids.collect();
    let record = |id: &i64| Wire {
        partition: i32::try_from(id % i64::from(world.topic.1)).expect("less than the partitions"),
        key: Some((id % 80).to_string().into_bytes()),
        payload: Some(json!({ "id": id, "seed": 3 }).to_string().into_bytes()),
        ..Wire::default()
    };
    world.put(&ids.iter().map(record).collect::<Vec<_>>());
    world.sent_too(&ids);
}

impl Night {
    /// A member owns all partitions and has messages in its lanes; it falls asleep at `moment`,
    /// which is given it before they are sent.
    fn fall(way: Way, concurrency: usize, moment: impl FnOnce(&mut Child), until: impl FnOnce(&Child)) -> Self {
        let world = World::real(way.topic());
        let mut sleeper = member(&world, concurrency);
        put(&world, 0..100);
        world.settled(PATIENCE);
        moment(&mut sleeper);
        put(&world, 100..100 + QUEUED);
        until(&sleeper);
        sleeper.signal("STOP");
        let ends = world.broker.ends(world.topic.0, world.topic.1);
        Self { world, sleeper, ends }
    }

    /// Another member does everything; then the sleeper wakes, joins again and works on what
    /// comes later. What it did after it woke with messages that it had queued.
    fn pass(mut self, wake: impl FnOnce(&mut Child)) -> Vec<Point> {
        let (world, source) = (&self.world, self.sleeper.source);
        let other = member(world, 10);
        world.settled(PATIENCE * 2);
        let before = world.events.seen().events.len();
        wake(&mut self.sleeper);
        self.sleeper.signal("CONT");
        let later = |at: &Coordinates| at.offset >= self.ends[usize::try_from(at.partition).expect("not negative")];
        let of_sleeper = |seen: &Seen, new| -> Vec<Point> {
            let since = seen.events[before..].iter().filter(|event| event.source == source);
            since.filter(|event| later(&event.at) == new).map(|event| event.point).collect()
        };
        let (deadline, mut next) = (Instant::now() + PATIENCE, 1_000_000);
        while !world.events.wait_briefly(DRIP, |seen| of_sleeper(seen, true).contains(&Point::Committed)) {
            assert!(Instant::now() < deadline, "it works no more:\n{}", world.events.seen().describe());
            put(world, next..next + 8);
            next += 8;
        }
        world.settled(PATIENCE);
        self.sleeper.stop();
        other.stop();
        world.assert_once();
        let mut did = of_sleeper(&world.events.seen(), false);
        did.retain(|point| !matches!(point, Point::Recorded | Point::OffsetCommitted));
        did
    }
}

/// One worker, which has committed a message and already has the next before it, with a
/// transaction open for that.
fn what_was_taken_ahead_is_not_started(way: Way) {
    let night = Night::fall(way, 1, |child| child.halt_at(Point::Committed, 200), |child| drop(child.halted()));
    let did = night.pass(Child::go);
    let starts = did.iter().filter(|point| **point != Point::Committed).count();
    assert_eq!(starts, 0, "{way}: {did:?}");
}

#[test]
fn con_08_a_message_taken_ahead_is_not_started_after_waking() {
    what_was_taken_ahead_is_not_started(Way::Single);
}

#[test]
fn con_08_a_shared_transaction_is_not_begun_after_waking() {
    what_was_taken_ahead_is_not_started(Way::Shared);
}

/// All workers are in the middle of something.
#[test]
fn con_08_only_what_ran_is_ended_after_waking() {
    const WORKERS: usize = 8;
    let ran = |child: &Child| child.heard_of(Point::Committed, 300);
    let night = Night::fall(Way::Single, WORKERS, |_| {}, ran);
    let did = night.pass(|_| {});
    println!("after waking: {did:?}");
    let starts = did.iter().filter(|point| matches!(point, Point::Claimed | Point::Skipped)).count();
    assert!(starts <= WORKERS, "those whose claim was on its way, and no other: {did:?}");
}
