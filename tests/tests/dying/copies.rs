//! Copies of dead letters in a topic.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tests::PATIENCE;
use tests::broker::{Broker, Wire};
use tests::database::Kind;
use tests::outbox::{Found, read};
use tests::world::World;

use super::jobs::{DYING, Mended};
use super::poison::{good, poison};

const COPIES: (&str, i32) = ("dying.dead", 2);

/// DLT-01: each dead letter leaves by the outbox, as it was sent, with what tools need to find out why.
pub fn a_copy_of_each_dead_letter_goes_to_a_topic(kind: Kind) {
    let topics = [DYING, COPIES];
    let broker = if kind == Kind::Sqlite { Broker::embedded(&topics) } else { Broker::real(&topics) };
    let world = World::on(broker, kind, DYING);
    let from = world.broker.ends(COPIES.0, COPIES.1);
    let poison = poison();
    let bad: Vec<Wire> = poison.iter().map(|(wire, _)| wire.clone()).collect();
    world.put(&(0..10).map(good).collect::<Vec<_>>());
    let offsets = world.put(&bad);
    let job = if kind == Kind::Sqlite { "single_sqlite" } else { "single_postgres" };
    let worker = world.work_as([job], |builder| builder.state(Mended::default()).dead_letter_topic("{topic}.dead"));
    world.settled(PATIENCE);
    let copies = arrived(&world, &from, poison.len());
    worker.stop().expect("a clean stop");
    assert_eq!(copies.len(), poison.len(), "one each");
    for ((wire, reason), offset) in poison.iter().zip(offsets) {
        let copy = copies.get(&(wire.partition, offset)).unwrap_or_else(|| panic!("{reason} has no copy"));
        assert_same(copy, wire);
        assert_eq!(header(copy, "idempotent-jobs-reason"), Some(reason.as_bytes()));
        assert_eq!(header(copy, "kafka_dlt-original-topic"), Some(DYING.0.as_bytes()));
        assert_eq!(header(copy, "kafka_dlt-original-consumer-group"), Some(world.group.as_bytes()));
    }
}

/// Waits for so many, by where their messages lay.
fn arrived(world: &World, from: &[i64], many: usize) -> HashMap<(i32, i64), Found> {
    const LOOK: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ends = world.broker.ends(COPIES.0, COPIES.1);
        let there: i64 = ends.iter().zip(from).map(|(end, from)| end - from).sum();
        if usize::try_from(there).is_ok_and(|there| there >= many) {
            let found = read(world.broker.servers(), COPIES.0, from, &ends);
            return found.into_iter().map(|copy| (place(&copy), copy)).collect();
        }
        assert!(Instant::now() < deadline, "{there} of {many} copies:\n{}", world.events.seen().describe());
        world.events.wait_briefly(LOOK, |seen| seen.deserter().is_some());
    }
}

fn place(copy: &Found) -> (i32, i64) {
    let partition = header(copy, "kafka_dlt-original-partition").and_then(|bytes| bytes.try_into().ok());
    let offset = header(copy, "kafka_dlt-original-offset").and_then(|bytes| bytes.try_into().ok());
    (
        i32::from_be_bytes(partition.expect("4 bytes of the partition")),
        i64::from_be_bytes(offset.expect("8 bytes of the offset")),
    )
}

fn assert_same(copy: &Found, wire: &Wire) {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(copy.payload, wire.payload.as_ref().map(text));
    let own: Vec<(String, Option<Vec<u8>>)> =
        wire.headers.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    assert!(copy.headers.windows(own.len()).any(|part| part == own), "its own headers, in their order");
    match wire.key.as_ref().map(|key| String::from_utf8(key.clone())) {
        Some(Ok(key)) if !key.contains('\0') => assert_eq!(copy.key, Some(key)),
        _ => assert_eq!(header(copy, "idempotent-jobs-original-key"), wire.key.as_deref()),
    }
}

fn header<'a>(copy: &'a Found, name: &str) -> Option<&'a [u8]> {
    copy.headers.iter().find(|(its, _)| its == name)?.1.as_deref()
}
