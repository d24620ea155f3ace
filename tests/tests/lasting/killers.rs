//! Messages that kill the process they run in.

use idempotent_jobs::dead_letters::{DeadLetter, LetterState};
use serde_json::{Value, json};
use tests::PATIENCE;
use tests::child::Child;
use tests::database::Kind;
use tests::world::{CRASH, World};

const GOOD: i64 = 40;
const BAD: i64 = 1_000;

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

fn left(world: &World, table: &str) -> i64 {
    let table = match world.database.kind {
        Kind::Sqlite => format!("idempotent_jobs_{table}"),
        Kind::Postgres => format!("idempotent_jobs.{table}"),
    };
    world.database.number(&format!("SELECT count(*) FROM {table}"))
}

/// The good ones are done once and accused by nobody, and nothing is left behind.
fn assert_good(world: &World, killers: usize) -> Vec<DeadLetter> {
    world.assert_once();
    let letters = world.letters();
    assert_eq!(letters.len(), killers, "{letters:#?}");
    for letter in &letters {
        assert_eq!((&*letter.reason, letter.state), ("killed_process", LetterState::Open), "{}", letter.error);
    }
    assert_eq!((left(world, "attempts"), left(world, "owners")), (0, 0), "rows of attempts and owners");
    letters
}

fn among_good_ones(world: &World, does: &Value) {
    world.send(0..GOOD);
    let (topic, partitions) = world.topic;
    let bad = world.broker.ends(topic, partitions)[0];
    let record = json!({ "id": BAD, "does": does }).to_string().into_bytes();
    world.put(&[tests::broker::Wire { payload: Some(record), ..Default::default() }]);
    world.send(GOOD..2 * GOOD);
    let died = until_one_lives(world, || world.child());
    let letter = assert_good(world, 1).remove(0);
    assert_eq!((letter.message.coordinates.partition, letter.message.coordinates.offset), (0, bad));
    assert!((3..=8).contains(&died), "{died} died");
    println!("{does}: {died} processes died, {} attempts", letter.attempts);
}

/// Each ends as one dead letter, with its key.
pub fn a_message_that_kills_its_process_is_found(kind: Kind, does: &str) {
    let world = World::of(kind, CRASH);
    among_good_ones(&world, &json!(does));
    let letter = world.letter();
    assert_eq!((letter.attempts, letter.key.as_deref()), (3, Some("[1000]")));
}

/// It cannot be read without a death, so its letter has no key.
pub fn a_message_that_kills_by_being_read_is_found(kind: Kind) {
    let world = World::of(kind, CRASH);
    among_good_ones(&world, &json!("abort_reader"));
    assert_eq!(world.letter().key, None);
}
