//! Handlers that break the rules, then a kill and a restart with good ones.

use idempotent_jobs::dead_letters::LetterState;
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::database::Kind;
use crate::world::{CRASH, World};

/// Messages around the bad one: on its partition before and behind it, and on the other.
const GOOD: i64 = 6;
/// The bad one's id.
const BAD: i64 = 100;

/// A handler that leaves its transaction not as it was lent, and the reason of its dead letter.
pub struct Mischief {
    pub does: Value,
    pub reason: &'static str,
}

/// Every way to end the transaction, by the handle and round it.
pub fn endings() -> Vec<Mischief> {
    let ways = ["by_handle", "round_it"].into_iter();
    ways.flat_map(|way| ["commit", "rollback", "rollback_begin"].map(|ending| json!({ way: ending })))
        .map(|does| Mischief { does, reason: "transaction_ended_by_handler" })
        .collect()
}

/// The bad message is a dead letter, nothing of it is stored, and the others are done; killed and started
/// again nothing changes; with a good handler it is done once, when it is asked for.
///
/// # Panics
/// When not.
pub fn play(kind: Kind, mischief: &Mischief) {
    let world = World::of(kind, CRASH);
    world.send(0..GOOD);
    let (topic, partitions) = world.topic;
    let bad = world.broker.ends(topic, partitions)[0];
    world.send_doing([BAD], &mischief.does);
    world.send(BAD + 1..BAD + 1 + GOOD);
    let ids = |id: i64| world.database.number(&format!("SELECT count(*) FROM effects WHERE id = {id}"));
    for _ in 0..2 {
        let child = world.child();
        world.settled(PATIENCE);
        child.kill();
        assert_eq!(ids(BAD), 0, "{}: nothing of it may be stored", mischief.does);
        let letter = world.letter();
        assert_eq!((letter.message.coordinates.offset, &*letter.reason), (bad, mischief.reason), "{}", mischief.does);
        world.send(BAD + 50..BAD + 52);
    }

    let mut command = world.command(world.quick());
    command.env("CHILD_GOOD", "1");
    let good = world.start(command);
    world.settled(PATIENCE);
    assert_eq!(ids(BAD), 0, "{}: not behind its back", mischief.does);
    world.ask();
    assert_eq!(world.answered(), [LetterState::Redriven], "{}", mischief.does);
    good.kill();
    world.assert_once();
}
