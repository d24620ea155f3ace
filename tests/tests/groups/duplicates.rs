//! Copies within a group and of what was done before it.

use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::database::Kind;

use super::scene::{Message, Scene, message};

pub fn ded_02_copies_within_a_group_have_one_effect(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        let copy = || message(7).keyed("other");
        scene.send(&[message(7), message(7), message(1), copy(), copy().on(1), message(2).on(1), message(7).keyless()]);
        let source = scene.work_off(&[form]);
        scene.assert_done(source, 2);
        assert_eq!(scene.sorted(form), [1, 2, 7], "{form}");
        assert_eq!(scene.world.skipped(), 4, "{form}: the copies");
        assert_eq!(scene.attempts(form, 7), [1], "{form}: no copy entered the handler");
    }
}

/// When the first of a key fails, its copies decide nothing.
pub fn ded_01_copies_of_one_that_fails_wait_for_it(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        let failing = || message(7).doing("fail", 2);
        scene.send(&[failing(), failing(), message(1), failing().keyed("other"), message(2)]);
        let source = scene.work_off(&[form]);
        scene.assert_tried(source, 3);
        assert_eq!(scene.sorted(form), [1, 2, 7], "{form}");
        assert_eq!(scene.world.skipped(), 2, "{form}: the copies");
    }
}

pub fn ded_02_other_content_within_a_group_is_a_dead_letter_and_loses_nothing(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        let mut messages: Vec<Message> = (0..10).map(message).collect();
        messages.insert(6, message(2).noting("other").keyed("elsewhere"));
        let offsets = scene.send(&messages);
        let source = scene.work_off(&[form]);
        let first = format!("topic groups, partition 0, offset {}", offsets[2]);
        let letter = scene.world.letter();
        assert_eq!((&*letter.reason, letter.message.coordinates.offset), ("conflict", offsets[6]), "{form}");
        assert!(letter.error.contains(&first), "{form}: {}", letter.error);
        scene.assert_tried(source, 10);
        scene.redrive(form);
        assert_eq!(scene.sorted(form), (0..10).collect::<Vec<_>>(), "{form}: each once, with its first content");
    }
}

/// Few of them are found by the group's own claims, many by a look before.
pub fn ded_02_a_group_is_given_only_what_is_new(kind: Kind) {
    for (form, old) in [("shared", 5), ("batch", 5), ("shared", 40), ("batch", 40)] {
        let scene = Scene::new(kind);
        let lane = |id| message(id).keyed("lane");
        scene.send(&(0..old).map(lane).collect::<Vec<_>>());
        scene.work_off(&[form]);
        let before = scene.log.calls().len();

        let mixed: Vec<Message> = (0..old).flat_map(|id| [lane(id), lane(1_000 + id)]).collect();
        scene.send(&mixed);
        let source = scene.work_off(&[form]);
        let new: Vec<i64> = (1_000..1_000 + old).collect();
        let given: Vec<i64> = scene.log.calls()[before..].iter().flat_map(|call| call.ids.clone()).collect();
        assert_eq!(given, new, "{form}: the new ones, in the order of the log");
        scene.assert_done(source, old as usize);
        assert_eq!(scene.world.events.seen().count(source, Point::Skipped), old as usize);
        if form == "batch" {
            assert_eq!(scene.log.calls().len(), before + 1, "one call for all");
        }
    }
}

/// Two programs with several transactions at a time, which claim the same keys and touch the
/// same rows, each in its own order.
pub fn contend(kind: Kind, form: &str) {
    const IDS: i64 = 300;
    let scene = Scene::new(kind);
    let touching = |id: i64| message(id).doing(&format!("touch {}", id % 5), usize::MAX);
    let there = (0..IDS).map(touching);
    let back = (0..IDS).rev().map(|id| touching(id).on(1));
    scene.send(&there.chain(back).collect::<Vec<_>>());
    let (one, other) = (scene.work_beside(&[form], 4), scene.work_beside(&[form], 4));
    scene.world.settled(PATIENCE);
    one.stop().expect("a clean stop");
    other.stop().expect("a clean stop");
    assert_eq!(scene.sorted(form), (0..IDS).collect::<Vec<_>>(), "{form}");
    let touched = scene.world.database.number("SELECT CAST(sum(touched) AS BIGINT) FROM counters");
    assert_eq!(touched, IDS, "{form}");
}

pub fn ded_11_groups_that_contend_for_keys_and_rows_have_each_effect_once(kind: Kind) {
    for form in ["shared", "batch"] {
        contend(kind, form);
    }
}
