//! One message of each bad kind among good ones.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use idempotent_jobs::dead_letters::LetterState;
use serde_json::{Value, json};
use tests::PATIENCE;
use tests::broker::Wire;
use tests::database::Kind;
use tests::letters::assert_whole;
use tests::worker::Running;
use tests::world::World;

use super::jobs::{DYING, Mended};

const GOOD: i64 = 1_000;

fn wire(id: i64, payload: Option<Vec<u8>>) -> Wire {
    let headers = vec![
        ("event".into(), b"work".to_vec()),
        ("trace".into(), b"1".to_vec()),
        ("trace".into(), vec![0xff, 0, 0xc3]),
        ("empty".into(), Vec::new()),
    ];
    Wire { partition: i32::try_from(id.rem_euclid(4)).expect("small"), key: Some(vec![0xff, 0, 7]), payload, headers }
}

fn work(id: i64, value: &Value) -> Wire {
    wire(id, Some(value.to_string().into_bytes()))
}

pub fn good(id: i64) -> Wire {
    Wire { key: Some(id.to_string().into_bytes()), ..work(id, &json!({ "id": id })) }
}

pub fn does(id: i64, does: &str) -> Wire {
    work(id, &json!({ "id": id, "does": does }))
}

/// Each bad one, and its reason.
pub fn poison() -> Vec<(Wire, &'static str)> {
    let header = |name: &str, value: &[u8], wire: Wire| {
        let mut headers = wire.headers.clone();
        headers.push((name.into(), value.to_vec()));
        Wire { headers, ..wire }
    };
    let large = json!({ "id": 5_010, "does": "terminal", "more": "x".repeat(800_000) });
    vec![
        (wire(5_000, Some(b"{\"id\":".to_vec())), "decode"),
        (wire(5_001, Some(vec![0xff, 0, 0xc3])), "decode"),
        (wire(5_002, Some(Vec::new())), "decode"),
        (wire(5_003, None), "tombstone"),
        (work(5_004, &json!({ "does": "nothing" })), "key_missing"),
        (header("idempotency-key", b"[1]", work(5_005, &json!({ "id": 5_005 }))), "key_mismatch"),
        (does(5_006, "terminal"), "terminal"),
        (does(5_007, "fail"), "exhausted"),
        (does(5_008, "panic"), "exhausted"),
        (does(5_009, "hang"), "exhausted"),
        (work(5_010, &large), "terminal"),
        (does(5_011, "end"), "transaction_ended_by_handler"),
        // The key of a good one, with other content, behind it in its partition.
        (work(4, &json!({ "id": 4, "does": "other" })), "conflict"),
        (header("event", b"unheard of", does(5_012, "nothing")), "unknown_event"),
    ]
}

fn work_on(world: &World, form: &str, mended: &Mended) -> Running {
    let (job, mended) = (format!("{form}_{}", world.database.kind), mended.clone());
    world.work_as([], |builder| builder.jobs([job]).state(mended))
}

/// All good ones once, each bad one exactly one dead letter with its reason, byte for byte; and once the
/// handlers are mended, those that can be done are done once.
pub fn each_bad_one_is_one_dead_letter(kind: Kind, form: &str) {
    let world = World::of(kind, DYING);
    let poison = poison();
    let mut all: Vec<Wire> = (0..GOOD).map(good).collect();
    for (nth, (wire, _)) in poison.iter().enumerate() {
        all.insert(300 + nth * 40, wire.clone());
    }
    let offsets = world.put(&all);
    let mended = Mended::default();
    let worker = work_on(&world, form, &mended);
    world.settled(PATIENCE);
    let job = format!("{form}_{kind}");
    assert_eq!(sorted(&world, &job), (0..GOOD).collect::<Vec<_>>(), "the good ones, each once");

    let letters = world.letters();
    let of: HashMap<(i32, i64), _> = letters
        .iter()
        .map(|letter| ((letter.message.coordinates.partition, letter.message.coordinates.offset), letter))
        .collect();
    for (nth, (wire, reason)) in poison.iter().enumerate() {
        let at = (wire.partition, offsets[300 + nth * 40]);
        let letter = of.get(&at).unwrap_or_else(|| panic!("{reason} at {at:?} is no dead letter"));
        assert_eq!(letter.reason, *reason, "{}", letter.error);
        assert_whole(letter, wire);
    }
    assert_eq!(letters.len(), poison.len(), "and no other");

    mended.is.store(true, Ordering::SeqCst);
    world.ask();
    let states = world.answered();
    worker.stop().expect("a clean stop");
    assert_eq!(
        states.iter().filter(|state| **state == LetterState::Redriven).count(),
        6,
        "those whose handlers failed"
    );
    let done: Vec<i64> = (0..GOOD).chain(5_006..=5_011).collect();
    assert_eq!(sorted(&world, &job), done, "each once");
}

/// DED-05: what may be another message settles no letter, whatever `compare` was when that one was done.
pub fn a_conflict_is_no_duplicate_once_compare_has_changed(kind: Kind) {
    let world = World::of(kind, DYING);
    world.put(&[good(4), work(4, &json!({ "id": 4, "does": "other" }))]);
    let worker = work_on(&world, "single", &Mended::default());
    world.settled(PATIENCE);
    assert_eq!(world.letter().reason, "conflict");
    let table = if kind == Kind::Sqlite { "idempotent_jobs_processed" } else { "idempotent_jobs.processed" };
    world.database.run(&format!("UPDATE {table} SET scheme = 'v1:amount'"));
    world.ask();
    assert_eq!(world.answered(), [LetterState::Open]);
    worker.stop().expect("a clean stop");
    assert_eq!((&*world.letter().reason, world.letter().attempts), ("conflict", 0));
    assert!(world.letter().error.contains("compare"), "{}", world.letter().error);
}

pub fn sorted(world: &World, job: &str) -> Vec<i64> {
    let mut ids = world.database.ids(job);
    ids.sort_unstable();
    ids
}

/// DED-05: each is run by one of them, however often it is asked for.
pub fn redrives_are_shared_by_workers_and_each_runs_once(kind: Kind) {
    const DEAD: i64 = 250;
    let world = World::of(kind, DYING);
    world.put(&(0..DEAD).map(|id| does(id, "terminal")).collect::<Vec<_>>());
    let mended = Mended::default();
    let workers = [work_on(&world, "single", &mended), work_on(&world, "single", &mended)];
    world.settled(PATIENCE);
    assert_eq!(world.letters().len(), 250);
    mended.is.store(true, Ordering::SeqCst);
    let ids: Vec<i64> = world.letters().iter().map(|letter| letter.id).collect();
    for _ in 0..3 {
        world.ask_for(&ids);
    }
    let states = world.answered();
    assert!(states.iter().all(|state| *state == LetterState::Redriven), "{states:?}");
    workers.into_iter().for_each(|worker| worker.stop().expect("a clean stop"));
    assert_eq!(sorted(&world, &format!("single_{kind}")), (0..DEAD).collect::<Vec<_>>());
}
