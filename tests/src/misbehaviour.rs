//! Handlers that break the rules, then a kill and a restart with good ones.

use std::time::Duration;

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::database::Kind;
use crate::world::{CRASH, World};

/// Messages around the bad one: on its partition before and behind it, and on the other.
const GOOD: i64 = 6;
/// The bad one's id.
const BAD: i64 = 100;

/// A handler that leaves its transaction not as it was lent, and what the process says of it.
pub struct Mischief {
    pub does: Value,
    /// Words of the error that ends the process.
    pub reason: &'static str,
}

/// Every way to end the transaction, by the handle and round it.
pub fn endings() -> Vec<Mischief> {
    let ways = ["by_handle", "round_it"].into_iter();
    ways.flat_map(|way| ["commit", "rollback", "rollback_begin"].map(|ending| json!({ way: ending })))
        .map(|does| Mischief { does, reason: "transaction_ended_by_handler" })
        .collect()
}

/// The process stops at the bad message and commits nothing of it; killed and started again it
/// stops there again; with a good handler everything is done once.
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

    let stopped = world.child();
    fails(&world, stopped, mischief);
    let ids = |id: i64| world.database.number(&format!("SELECT count(*) FROM effects WHERE id = {id}"));
    assert_eq!(ids(BAD), 0, "{}: nothing of it may be stored", mischief.does);
    let committed = world.broker.committed(&world.group, topic, partitions)[0];
    assert!(committed <= bad, "{}: offset {committed} is committed, behind {bad}", mischief.does);

    let again = world.child();
    fails(&world, again, mischief);
    assert_eq!(ids(BAD), 0, "{}: nothing of it may be stored", mischief.does);

    let mut command = world.command(world.quick());
    command.env("CHILD_GOOD", "1");
    let good = world.start(command);
    world.settled(PATIENCE);
    good.kill();
    world.assert_once();
}

fn fails(world: &World, child: crate::child::Child, mischief: &Mischief) {
    let source = child.source;
    let status = child.ended(PATIENCE + Duration::from_secs(30));
    let seen = world.events.seen();
    assert!(!status.success(), "{}: the process goes on\n{}", mischief.does, seen.describe());
    for words in [mischief.reason, "stopped at topic crash, partition 0, offset "] {
        assert!(seen.has_said(source, words), "{}: `{words}` was not said\n{}", mischief.does, seen.describe());
    }
}
