//! Liveness and readiness.

use std::time::{Duration, Instant};

use idempotent_jobs::WorkerBuilder;
use idempotent_jobs::health::Health;
use tests::PATIENCE;
use tests::database::Kind;
use tests::worker::Running;
use tests::world::World;

use super::jobs::{Mended, OPERATED};

/// What keeps it from being ready, as words.
pub fn words(health: &Health) -> Vec<&'static str> {
    health.ready().map_or_else(|unwell| unwell.0.iter().map(|symptom| symptom.as_str()).collect(), |()| Vec::new())
}

/// Waits until it is as it should be.
pub fn becomes(world: &World, health: &Health, wanted: impl Fn(&[&'static str]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !wanted(&words(health)) {
        assert!(Instant::now() < deadline, "{health:?}\n{}", world.events.seen().describe());
        world.events.wait_briefly(Duration::from_millis(20), |_| false);
    }
}

pub fn work(world: &World, health: &Health, more: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Running {
    let job = format!("operated_{}", world.database.kind);
    world.work_as([], |builder| more(builder.jobs([job]).state(Mended::default()).health(health.clone())))
}

pub fn a_worker_is_ready_between_its_start_and_its_end(kind: Kind) {
    let world = World::of(kind, OPERATED);
    let health = Health::new();
    assert_eq!(words(&health), ["starting"]);
    let worker = work(&world, &health, |builder| builder);
    becomes(&world, &health, |words| words.is_empty());
    health.live().expect("it lives");
    worker.stop().expect("a clean stop");
    assert_eq!(words(&health), ["ended"]);
    assert_eq!(health.live().expect_err("it ended").to_string(), "ended: the worker ended: its error says why");
}

/// Three members of two partitions.
pub fn a_member_that_gets_no_partition_is_ready(kind: Kind, protocol: &str) {
    let world = World::of(kind, OPERATED);
    let members: Vec<_> = (0..3)
        .map(|_| {
            let health = Health::new();
            let worker = work(&world, &health, |builder| builder.property("group.protocol", protocol));
            (health, worker)
        })
        .collect();
    for (health, _) in &members {
        becomes(&world, health, |words| words.is_empty());
    }
    for (_, worker) in members {
        worker.stop().expect("a clean stop");
    }
}
