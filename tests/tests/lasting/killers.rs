//! Messages that kill the process they run in.

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use idempotent_jobs::dead_letters::{DeadLetter, LetterState};
use serde_json::{Value, json};
use tests::PATIENCE;
use tests::child::Child;
use tests::database::Kind;
use tests::world::{CRASH, World};

use super::left;

const GOOD: i64 = 40;
const BAD: i64 = 1_000;

/// Deaths in a row before messages run alone, and those of a message that does, before it is given up.
const TO_SUSPECT: usize = 2;
const TO_ACCUSE: usize = 3;

/// What kills before its handler has it.
const READER: &str = "abort_reader";

/// As an orchestrator does: starts a child whenever the last one died, until one lives. How many died.
fn until_one_lives(world: &World, start: impl Fn() -> Child) -> usize {
    const MOST: usize = 20;
    for died in 0..MOST {
        let child = start();
        if world.outlives(&child) {
            // The rows of dead owners stay until their partitions have something for the next one.
            world.send(-2..0);
            world.settled(PATIENCE);
            child.stop();
            return died;
        }
    }
    panic!("{MOST} died:\n{}", world.events.seen().describe());
}

/// The good ones are done once and accused by nobody, and nothing is left behind.
fn assert_good(world: &World, killers: usize) -> Vec<DeadLetter> {
    let letters = world.letters();
    assert_eq!(letters.len(), killers, "{letters:#?}");
    world.assert_once();
    for letter in &letters {
        assert_eq!((&*letter.reason, letter.state), ("killed_process", LetterState::Open), "{}", letter.error);
    }
    assert_eq!((left(world, "attempts"), left(world, "owners")), (0, 0), "rows of attempts and owners");
    letters
}

fn among_good_ones(world: &World, does: &Value, start: impl Fn() -> Child) {
    world.send(0..GOOD);
    let (topic, partitions) = world.topic;
    let bad = world.broker.ends(topic, partitions)[0];
    let record = json!({ "id": BAD, "does": does }).to_string().into_bytes();
    world.put(&[tests::broker::Wire { payload: Some(record), ..Default::default() }]);
    world.send(GOOD..2 * GOOD);
    let died = until_one_lives(world, start);
    let letter = assert_good(world, 1).remove(0);
    assert_eq!((letter.message.coordinates.partition, letter.message.coordinates.offset), (0, bad));
    // Once more when the key for its letter is read.
    let more = usize::from(does == READER);
    assert_eq!(died, TO_SUSPECT + TO_ACCUSE + more, "{} attempts", letter.attempts);
}

/// Each ends as one dead letter, with its key.
pub fn a_message_that_kills_its_process_is_found(kind: Kind, does: &str) {
    let world = World::of(kind, CRASH);
    among_good_ones(&world, &json!(does), || world.child());
    let letter = world.letter();
    assert_eq!((letter.attempts, letter.key.as_deref()), (3, Some("[1000]")));
}

/// It cannot be read without a death, so its letter has no key.
pub fn a_message_that_kills_by_being_read_is_found(kind: Kind) {
    let world = World::of(kind, CRASH);
    among_good_ones(&world, &json!(READER), || world.child());
    assert_eq!(world.letter().key, None);
}

/// Among those it shares transactions with nobody is accused.
pub fn a_killer_in_a_shared_transaction_is_found(kind: Kind) {
    let world = World::of(kind, CRASH);
    among_good_ones(&world, &json!("abort"), || {
        let mut command = world.command(world.quick());
        // Few messages are spread over all connections: more would leave each alone.
        command.env("CHILD_JOB", format!("shared_{kind}")).env("CHILD_CONCURRENCY", "1");
        world.start(command)
    });
    assert_eq!(world.letter().attempts, 3);
}

/// Killers of both partitions, and one behind another in its lane.
pub fn each_of_several_killers_is_found(kind: Kind) {
    let world = World::of(kind, CRASH);
    world.send(0..GOOD);
    let record = |(id, partition): &(i64, i32)| tests::broker::Wire {
        partition: *partition,
        payload: Some(json!({ "id": id, "does": "abort" }).to_string().into_bytes()),
        key: Some(b"one lane".to_vec()),
        ..Default::default()
    };
    let killers = [(BAD, 0), (BAD + 1, 0), (BAD + 2, 1)];
    world.put(&killers.iter().map(record).collect::<Vec<_>>());
    world.send(GOOD..2 * GOOD);
    let died = until_one_lives(&world, || world.child());
    let letters = assert_good(&world, killers.len());
    assert!(letters.iter().all(|letter| letter.attempts == 3), "{letters:#?}");
    assert!(
        (TO_SUSPECT + TO_ACCUSE * killers.len()..=TO_SUSPECT + (TO_ACCUSE + 1) * killers.len()).contains(&died),
        "{died} died"
    );
}

/// Twenty blows, some before the offsets of the last life are committed: a message that was struck is not to blame.
pub fn kills_accuse_nobody(kind: Kind) {
    let world = World::of(kind, CRASH);
    world.send_doing(0..400, &json!({ "slow": 20 }));
    for life in 0..20 {
        let child = world.child();
        child.heard_of(Point::Claimed, 1 + life * 7 % 5);
        child.kill();
    }
    let last = world.child();
    world.settled(PATIENCE);
    last.stop();
    assert_good(&world, 0);
}

/// Asked for again before it is mended, it kills no more than it did before; and mended, it is done once.
pub fn a_redrive_that_kills_its_process_is_found(kind: Kind, does: &str) {
    const LOOK: Duration = Duration::from_millis(200);
    let world = World::of(kind, CRASH);
    among_good_ones(&world, &json!(does), || world.child());
    world.ask();
    let mut died = 0;
    while world.letter().state == LetterState::Requested {
        assert!(died < 10, "{died} died:\n{}", world.events.seen().describe());
        let child = world.child();
        let (source, deadline) = (child.source, Instant::now() + PATIENCE);
        world.events.dismiss(source);
        while !world.events.wait_briefly(LOOK, |seen| seen.has_ended(source)) {
            if world.letter().state != LetterState::Requested {
                break;
            }
            assert!(Instant::now() < deadline, "it is neither run nor given up");
        }
        died += usize::from(world.events.seen().has_ended(source));
    }
    assert_eq!(died, 3);
    let letter = world.letter();
    assert_eq!((&*letter.reason, letter.state), ("killed_process", LetterState::Open));
    let history = world.shown(letter.id).history;
    assert!(history.iter().any(|change| change.detail.as_ref().is_some_and(|it| it.contains("3 processes died"))));

    world.ask();
    let mut command = world.command(world.quick());
    command.env("CHILD_GOOD", "1");
    let mended = world.start(command);
    assert_eq!(world.answered(), [LetterState::Redriven]);
    mended.stop();
    world.sent_too(&[BAD]);
    world.assert_once();
    assert_eq!(left(&world, "redrives"), 0);
}
