//! A process killed between a dead letter and its offset, and started again with a mended handler.

use idempotent_jobs::__private::Point;
use idempotent_jobs::dead_letters::LetterState;
use serde_json::json;
use tests::PATIENCE;
use tests::database::Kind;
use tests::world::{CRASH, World};

const BAD: i64 = 100;

/// DLT-02: whether it has a key, so that its claim tells, or cannot even be read.
pub fn a_message_that_died_comes_again_and_is_not_run_behind_its_letters_back(kind: Kind) {
    for (does, reason) in [("terminal", "terminal"), ("unreadable", "decode")] {
        let world = World::of(kind, CRASH);
        world.send(0..4);
        let (topic, partitions) = world.topic;
        let bad = world.broker.ends(topic, partitions)[0];
        world.send_doing([BAD], &json!(does));
        world.send(BAD + 1..BAD + 5);
        let mut child = world.child();
        child.halt_at(Point::Buried, 1);
        let at = child.halted();
        assert_eq!((at.partition, at.offset), (0, bad), "{does}");
        child.kill();
        assert!(world.broker.committed(&world.group, topic, partitions)[0] <= bad, "{does}: its offset stayed");
        assert_eq!(world.letter().reason, reason);

        let mut command = world.command(world.quick());
        command.env("CHILD_GOOD", "1");
        let mended = world.start(command);
        world.settled(PATIENCE);
        let effects = || world.database.number(&format!("SELECT count(*) FROM effects WHERE id = {BAD}"));
        assert_eq!((world.letter().state, effects()), (LetterState::Open, 0), "{does}: not behind its back");
        assert!(world.skipped() >= 1, "{does}: it came again");

        world.ask();
        assert_eq!(world.answered(), [LetterState::Redriven], "{does}");
        mended.stop();
        world.assert_once();
    }
}

/// Many of them, so that they are looked up in bulk when they come again.
pub fn messages_that_died_are_passed_over_in_bulk(kind: Kind) {
    const MANY: i64 = 60;
    for does in ["terminal", "unreadable"] {
        let world = World::of(kind, CRASH);
        world.send_doing(BAD..BAD + MANY, &json!(does));
        let mut child = world.child();
        child.halt_at(Point::Buried, 40);
        child.halted();
        child.kill();
        let dead = world.letters().len();
        assert!(dead >= 40, "{does}: {dead}");

        let mut command = world.command(world.quick());
        command.env("CHILD_GOOD", "1");
        let mended = world.start(command);
        world.settled(PATIENCE);
        assert_eq!(world.letters().len(), dead, "{does}");
        let done = world.database.number("SELECT count(*) FROM effects");
        assert_eq!(usize::try_from(done).expect("small") + dead, 60, "{does}: done, or dead with a letter");
        world.ask();
        assert!(world.answered().iter().all(|state| *state == LetterState::Redriven), "{does}");
        mended.stop();
        world.assert_once();
    }
}

/// DED-05: killed while a redrive is under way, before its commit and behind it.
pub fn a_redrive_that_is_killed_runs_once_in_the_end(kind: Kind) {
    for (point, does) in [(Point::Claimed, "terminal"), (Point::Handled, "terminal"), (Point::Handled, "unreadable")] {
        let world = World::of(kind, CRASH);
        world.send_doing([BAD], &json!(does));
        let first = world.child();
        world.settled(PATIENCE);
        first.stop();
        world.ask();
        let mut command = world.command(world.quick());
        command.env("CHILD_GOOD", "1").env("CHILD_HALT", tests::events::word(point));
        let child = world.start(command);
        child.heard("halted");
        child.kill();
        assert_eq!(world.letter().state, LetterState::Requested, "{does}: nothing of it is stored");

        let mut command = world.command(world.quick());
        command.env("CHILD_GOOD", "1");
        let next = world.start(command);
        assert_eq!(world.answered(), [LetterState::Redriven], "{does}");
        next.stop();
        world.assert_once();
    }
}
