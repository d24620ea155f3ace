//! What a worker's gauges show when it gives its partitions up. The recorder is the process's own: one test.

#[expect(dead_code, reason = "the rest of it is the tests of the operator's tool")]
mod operating;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use idempotent_jobs::health::Health;
use idempotent_jobs::telemetry::{ASSIGNED, RELAY_BACKLOG_AGE, RELAY_IN_FLIGHT, RELAY_SHARDS};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use operating::jobs::{OPERATED, work};
use tests::PATIENCE;
use tests::world::World;

fn gauges(snapshotter: &Snapshotter) -> Vec<(String, f64)> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    let gauge = |(key, _, _, value): (metrics_util::CompositeKey, _, _, DebugValue)| match value {
        DebugValue::Gauge(value) => Some((key.key().name().to_owned(), value.into_inner())),
        _ => None,
    };
    all.filter_map(gauge).collect()
}

/// Waits until the relay has all of the outbox, and the worker its partitions.
fn works(world: &World) {
    const OWNED: &str = "SELECT count(*) FROM idempotent_jobs_shards WHERE owner IS NOT NULL";
    world.put(&[work(1, false)]);
    world.settled(PATIENCE);
    let deadline = Instant::now() + PATIENCE;
    while world.database.number(OWNED) < 32 {
        assert!(Instant::now() < deadline, "{}", world.events.seen().describe());
        world.events.wait_briefly(Duration::from_millis(20), |_| false);
    }
}

/// A look takes what it sees, so each is of one phase.
#[test]
fn obs_02_gauges_do_not_keep_the_last_value_after_a_revoke() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("no other recorder is there");
    let world = World::embedded(OPERATED);
    let worker = operating::health::work(&world, &Health::new(), |builder| builder);
    works(&world);
    // Whoever adds a gauge says here what it comes to while the worker works.
    let expected = [(ASSIGNED, 2.0), (RELAY_BACKLOG_AGE, 0.0), (RELAY_IN_FLIGHT, 0.0), (RELAY_SHARDS, 32.0)];
    let expected: BTreeMap<String, f64> = expected.map(|(name, value)| (name.to_owned(), value)).into();
    let (mut highest, deadline) = (BTreeMap::new(), Instant::now() + PATIENCE);
    while highest != expected {
        for (name, value) in gauges(&snapshotter) {
            let known = highest.entry(name).or_insert(value);
            *known = value.max(*known);
        }
        assert!(Instant::now() < deadline, "{highest:?}");
        world.events.wait_briefly(Duration::from_millis(20), |_| false);
    }
    worker.stop().expect("a clean stop");
    let worker = operating::health::work(&world, &Health::new(), |builder| builder);
    works(&world);
    worker.stop().expect("a clean stop");
    let left: Vec<_> = gauges(&snapshotter).into_iter().filter(|(_, value)| *value != 0.0).collect();
    assert_eq!(left, []);
}
