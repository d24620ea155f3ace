//! Dead letters that are run again, skipped, or cannot be written.

use std::sync::atomic::Ordering;

use idempotent_jobs::__private::Point;
use idempotent_jobs::dead_letters::{Answer, LetterState};
use serde_json::json;
use tests::PATIENCE;
use tests::letters::WHO;
use tests::world::World;

use super::jobs::{Mood, ORDERS, doing, order};

#[test]
fn ded_05_a_redrive_runs_the_handler_once_and_a_second_one_is_a_duplicate() {
    let world = World::embedded(ORDERS);
    world.put(&[doing(0, 1, "fail"), order(0, 2)]);
    let mood = Mood::default();
    let worker = world.work_as(["moody"], |builder| builder.state(mood.clone()));
    world.settled(PATIENCE);
    let letter = world.letter();
    assert_eq!((&*letter.reason, letter.attempts), ("exhausted", 1));

    // It fails again, and is the same letter with its history.
    assert_eq!(world.ask(), [(letter.id, Answer::Done)]);
    assert_eq!(world.answered(), [LetterState::Open]);
    let shown = world.shown(letter.id);
    assert_eq!((shown.letter.attempts, shown.history.len()), (2, 2));
    assert_eq!(shown.history[0].by.as_deref(), Some(WHO));
    assert_eq!(world.database.ids("moody"), [2]);

    mood.0.store(true, Ordering::SeqCst);
    world.put(&[doing(0, 1, "fail")]);
    world.settled(PATIENCE);
    assert_eq!(world.database.ids("moody"), [2], "sent again, it does not run behind the letter's back");
    assert_eq!(world.ask(), [(letter.id, Answer::Done)]);
    assert_eq!(world.answered(), [LetterState::Redriven]);
    assert_eq!(world.database.ids("moody"), [2, 1]);

    assert_eq!(
        world.ask_for(&[letter.id, 99]),
        [(letter.id, Answer::Stands(LetterState::Redriven)), (99, Answer::Unknown)]
    );
    world.put(&[doing(0, 1, "fail")]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("moody"), [2, 1], "once");
    assert_eq!(world.letters().len(), 1);
}

#[test]
fn a_skipped_letter_stays_skipped_and_what_was_exported_is_whole() {
    let world = World::embedded(ORDERS);
    world.put(&[doing(0, 1, "fail"), order(0, 2)]);
    let mood = Mood::default();
    let worker = world.work_as(["moody"], |builder| builder.state(mood.clone()));
    world.settled(PATIENCE);
    let id = world.letter().id;
    assert_eq!(world.skip(), [(id, Answer::Done)]);
    assert!(world.ask().is_empty(), "no open one is left");
    mood.0.store(true, Ordering::SeqCst);
    world.put(&[doing(0, 1, "fail")]);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.database.ids("moody"), [2]);
    let [line] = &world.exported()[..] else { panic!("one line") };
    let payload = doing(0, 1, "fail").payload.expect("it has one");
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (&line["payload_hex"], &line["state"], &line["changed_by"]),
        (&json!(hex), &json!("skipped"), &json!(WHO))
    );
}

/// DLT-01: the table refuses, as a database does that is full or away.
#[test]
fn dlt_01_a_dead_letter_that_cannot_be_written_keeps_its_offset_and_the_others_go_on() {
    let world = World::embedded(ORDERS);
    let mood = Mood::default();
    let first = world.work_as(["moody"], |builder| builder.state(mood.clone()));
    world.put(&[order(0, 0), order(1, 0)]);
    world.settled(PATIENCE);
    first.stop().expect("a clean stop");
    let refusing =
        "CREATE TRIGGER away BEFORE INSERT ON idempotent_jobs_dead_letters BEGIN SELECT RAISE(ABORT, 'away'); END";
    world.database.run(refusing);

    world.put(&[doing(0, 1, "fail"), order(0, 2), order(1, 3)]);
    let worker = world.work_as(["moody"], |builder| builder.state(mood.clone()));
    world.events.wait_count(worker.source, Point::Committed, 2);
    world.events.wait_briefly(std::time::Duration::from_secs(1), |seen| seen.has_ended(worker.source));
    assert_eq!(world.broker.committed(&world.group, "orders", 2)[0], 1, "its offset stays");
    assert!(world.letters().is_empty());
    let entered = world.events.seen().count(worker.source, Point::Claimed);
    assert_eq!(entered, 3, "its handler is not entered again");

    world.database.run("DROP TRIGGER away");
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.letter().reason, "exhausted");
}
