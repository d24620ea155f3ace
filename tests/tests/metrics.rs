//! What a worker counts, read as a monitoring system reads it. The recorder is the process's own: one test.

#[expect(dead_code, reason = "the rest of it is the tests of dead letters")]
mod dying;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use dying::jobs::{DYING, Mended};
use dying::poison::{does, good, poison};
use idempotent_jobs::telemetry::{DEAD_LETTERS, OUTCOMES, REDRIVES};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tests::PATIENCE;
use tests::broker::Wire;
use tests::world::World;

type Counts = BTreeMap<(String, String), u64>;

/// The counters since the last look, which takes them: by name, and by their job and their other word.
fn look(snapshotter: &Snapshotter) -> BTreeMap<String, Counts> {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let label = |wanted: &[&str]| key.key().labels().find(|label| wanted.contains(&label.key()));
        let DebugValue::Counter(count) = value else { continue };
        let (Some(job), Some(word)) = (label(&["job"]), label(&["outcome", "reason"])) else { continue };
        let counts = all.entry(key.key().name().to_owned()).or_default();
        *counts.entry((job.value().to_owned(), word.value().to_owned())).or_default() += count;
    }
    all
}

fn expect(found: &Counts, expected: &[(&str, &str, u64)]) {
    let expected: Counts =
        expected.iter().map(|(job, word, count)| (((*job).to_owned(), (*word).to_owned()), *count)).collect();
    assert_eq!(*found, expected);
}

/// DED-08, OBS: duplicates are a number and no error, each dead letter counts under its reason, and a redrive under
/// what it came to.
#[test]
fn ded_08_outcomes_dead_letters_and_redrives_are_counted_by_job_and_reason() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("no other recorder is there");
    let world = World::embedded(DYING);
    let mut all: Vec<Wire> = (0..20).map(good).collect();
    all.extend((0..5).map(good));
    all.extend(poison().into_iter().map(|(wire, _)| wire));
    world.put(&all);
    let mended = Mended::default();
    let worker = world.work_as(["single_sqlite"], |builder| builder.state(mended.clone()));
    world.settled(PATIENCE);
    let job = "single_sqlite";
    let seen = look(&snapshotter);
    expect(
        &seen[OUTCOMES],
        &[(job, "done", 20), (job, "duplicate", 5), (job, "retry", 3), (job, "dead", 13), ("-", "dead", 1)],
    );
    let reasons = [("decode", 3), ("tombstone", 1), ("key_missing", 1), ("key_mismatch", 1), ("terminal", 2)];
    let more = [("exhausted", 3), ("transaction_ended_by_handler", 1), ("conflict", 1)];
    let mut expected: Vec<(&str, &str, u64)> =
        reasons.into_iter().chain(more).map(|(reason, count)| (job, reason, count)).collect();
    expected.push(("-", "unknown_event", 1));
    expect(&seen[DEAD_LETTERS], &expected);

    mended.is.store(true, Ordering::SeqCst);
    world.put(&[does(6_000, "")]);
    world.ask();
    world.answered();
    worker.stop().expect("a clean stop");
    let redrives = &look(&snapshotter)[REDRIVES];
    assert_eq!(redrives.get(&(job.to_owned(), "redriven".to_owned())), Some(&6), "{redrives:?}");
}
