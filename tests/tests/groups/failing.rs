//! One of a group fails: its neighbours are done and pay nothing for it.

use idempotent_jobs::dead_letters::DeadLetter;
use tests::database::Kind;

use super::scene::{Message, Scene, message};

/// A message that misbehaves on every call until it is a dead letter, in company and alone.
pub struct Culprit {
    pub does: &'static str,
    /// Calls until the worker gives it up: one in company, the others alone.
    pub calls: usize,
    /// Words of its dead letter.
    pub reason: &'static [&'static str],
}

const BAD: i64 = 50;

fn hundred(bad: impl Fn(Message) -> Message) -> Vec<Message> {
    (0..100).map(|id| if id == BAD { bad(message(id)) } else { message(id) }).collect()
}

fn good() -> Vec<i64> {
    (0..100).filter(|id| *id != BAD).collect()
}

/// Its reason and its error have these words.
fn says(letter: &DeadLetter, expected: &[&str]) {
    let text = format!("reason {}: {}", letter.reason, letter.error);
    for word in expected {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

/// No attempt of a neighbour counts but its own.
fn assert_uncharged(scene: &Scene, form: &str) {
    for id in good() {
        let attempts = scene.attempts(form, id);
        assert!(attempts.iter().all(|attempt| *attempt == 1), "{form}: {id} was charged with {attempts:?}");
    }
}

fn succeeds_later(kind: Kind, form: &str) {
    let scene = Scene::new(kind);
    scene.send(&hundred(|bad| bad.doing("violate", 3)));
    let source = scene.work_off(&[form]);
    scene.assert_tried(source, 100);
    assert_eq!(scene.sorted(form), (0..100).collect::<Vec<_>>());
    assert_eq!(scene.attempts(form, BAD), [1, 1, 2, 3], "in company, then alone and counted from the first");
    assert_uncharged(&scene, form);
    assert_eq!(scene.world.skipped(), 0, "what was undone left no mark");
}

pub fn is_given_up(kind: Kind, form: &str, Culprit { does, calls, reason }: &Culprit) {
    let scene = Scene::new(kind);
    let offsets = scene.send(&hundred(|bad| bad.doing(does, *calls)));
    let source = scene.work_off(&[form]);
    let letter = scene.world.letter();
    assert_eq!(letter.message.coordinates.offset, offsets[BAD as usize], "{does}");
    says(&letter, reason);
    scene.assert_tried(source, BAD as usize + 1);
    // Its neighbours are made good for a second before the worker stops; on a busy machine some are left.
    let done = scene.sorted(form);
    assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{does}: neighbours are done once: {done:?}");
    assert!(!done.contains(&BAD), "{does}: the culprit is not done: {done:?}");
    assert_uncharged(&scene, form);
    assert_eq!(scene.attempts(form, BAD).len(), *calls, "{does}");

    scene.redrive(form);
    assert_eq!(scene.sorted(form), (0..100).collect::<Vec<_>>(), "{does}: everything once after a redrive");
}

pub fn db_07_one_of_a_hundred_that_violates_a_constraint_costs_the_others_nothing(kind: Kind) {
    succeeds_later(kind, "shared");
}

pub fn db_07_one_of_a_batch_that_violates_a_constraint_costs_the_others_nothing(kind: Kind) {
    succeeds_later(kind, "batch");
}

pub fn db_07_one_that_is_given_up_leaves_its_neighbours_done(kind: Kind) {
    let culprit = Culprit { does: "violate", calls: 4, reason: &["reason exhausted", "3 attempt(s)"] };
    is_given_up(kind, "shared", &culprit);
    is_given_up(kind, "batch", &culprit);
}

pub fn db_07_a_handler_that_panics_fails_alone(kind: Kind) {
    let culprit = Culprit { does: "panic", calls: 4, reason: &["reason exhausted", "the handler panics"] };
    is_given_up(kind, "shared", &culprit);
    is_given_up(kind, "batch", &culprit);
}

pub fn db_07_a_handler_that_hangs_fails_alone(kind: Kind) {
    let culprit = Culprit { does: "hang", calls: 4, reason: &["reason exhausted", "within the timeout of 3s"] };
    is_given_up(kind, "shared", &culprit);
}

pub fn db_02_a_handler_that_leaves_a_savepoint_open_fails_alone(kind: Kind) {
    let culprit = Culprit { does: "leave_savepoint", calls: 4, reason: &["reason exhausted", "savepoint"] };
    is_given_up(kind, "shared", &culprit);
    is_given_up(kind, "batch", &culprit);
}

pub fn db_02_a_handler_that_ends_the_shared_transaction_fails_alone(kind: Kind) {
    for does in ["commit_by_handle", "commit_round_it", "rollback_begin_round_it"] {
        let culprit = Culprit { does, calls: 2, reason: &["reason transaction_ended_by_handler"] };
        is_given_up(kind, "shared", &culprit);
        is_given_up(kind, "batch", &culprit);
    }
}

/// A part that fails and is undone by its own handler fails nobody.
pub fn db_07_an_error_within_a_savepoint_keeps_the_group_together(kind: Kind) {
    for form in ["shared", "batch"] {
        for does in ["undo_part", "drop_part"] {
            let scene = Scene::new(kind);
            scene.send(&hundred(|bad| bad.doing(does, usize::MAX)));
            let source = scene.work_off(&[form]);
            scene.assert_done(source, 100);
            assert_eq!(scene.sorted(form), (0..100).collect::<Vec<_>>(), "{does}");
            assert_eq!(scene.attempts(form, BAD), [1], "{does}");
        }
    }
}

/// Each is quick enough by itself.
pub fn db_07_those_that_take_too_long_together_run_alone(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        scene.send(&(0..15).map(|id| message(id).doing("slow", usize::MAX)).collect::<Vec<_>>());
        let source = scene.work_off(&[form]);
        scene.assert_tried(source, 15);
        assert_eq!(scene.sorted(form), (0..15).collect::<Vec<_>>());
        for id in 0..15 {
            assert_eq!(scene.attempts(form, id).last(), Some(&1), "{form}: {id}");
        }
    }
}

/// A constraint that is checked at COMMIT does not say who violated it.
pub fn db_07_a_constraint_that_fails_at_commit_singles_nobody_out(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        scene.send(&hundred(|bad| bad.doing("violate_late", 2)));
        let source = scene.work_off(&[form]);
        scene.assert_tried(source, 100);
        assert_eq!(scene.sorted(form), (0..100).collect::<Vec<_>>());
        assert_eq!(scene.attempts(form, BAD), [1, 1, 2]);
        assert_uncharged(&scene, form);
    }
}

fn five(does: &str, times: usize) -> Vec<Message> {
    let bad = |id| message(id).doing(does, times);
    vec![message(0).doing("slow", 1), bad(1), message(2), bad(3), message(4)]
}

pub fn bat_01_two_of_five_fail_and_each_has_its_own_outcome(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        let offsets = scene.send(&five("terminal", 2));
        let source = scene.work_off(&[form]);
        let letters = scene.world.letters();
        letters.iter().for_each(|letter| says(letter, &["no retry can help"]));
        let mut dead: Vec<i64> = letters.iter().map(|letter| letter.message.coordinates.offset).collect();
        dead.sort_unstable();
        assert_eq!(dead, [offsets[1], offsets[3]], "{form}");
        scene.assert_tried(source, 5);
        assert_eq!(scene.sorted(form), [0, 2, 4], "{form}: those that did not fail");
        // Where each is given by itself, the second was not entered in company: it fails once more.
        scene.redrive(form);
        scene.redrive(form);
        assert_eq!(scene.sorted(form), [0, 1, 2, 3, 4]);
    }
}

pub fn bat_01_two_of_five_fail_once_and_all_are_done(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        scene.send(&five("fail", 2));
        let source = scene.work_off(&[form]);
        scene.assert_tried(source, 5);
        assert_eq!(scene.sorted(form), [0, 1, 2, 3, 4]);
        for id in [0, 2, 4] {
            assert_eq!(scene.attempts(form, id).last(), Some(&1), "{form}: {id} pays for its own failures only");
        }
    }
}

/// What cannot be read is one dead letter and takes nobody with it.
pub fn con_10_a_message_that_cannot_be_read_in_the_middle_of_a_group(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        let mut messages: Vec<Message> = (0..10).map(message).collect();
        messages[4] = message(4).raw(r#"{"id": 4, "#);
        let offsets = scene.send(&messages);
        let source = scene.work_off(&[form]);
        scene.assert_done(source, 9);
        let letter = scene.world.letter();
        assert_eq!((&*letter.reason, letter.message.coordinates.offset), ("decode", offsets[4]), "{form}");
        let neighbours: Vec<i64> = (0..10).filter(|id| *id != 4).collect();
        assert_eq!(scene.sorted(form), neighbours, "{form}: once each");
    }
}
