//! What waits, what goes on, and in which order it is let go.

use idempotent_jobs::dead_letters::{Answer, Filter, Foreseen, LetterState};
use tests::broker::Wire;
use tests::database::Kind;
use tests::letters::{WHO, assert_whole};
use tests::{PATIENCE, wait_for};

use super::jobs::Work;
use super::scene::{FORMS, Scene, bad, good, wire};

/// A lane with a bad one in its middle, and another beside it.
fn lanes() -> Vec<Wire> {
    let (mut first, second) = (good("a", 1..6), good("b", 11..16));
    first[1] = bad("a", 2, 1);
    first.into_iter().zip(second).flat_map(|(one, other)| [one, other]).collect()
}

pub fn the_later_ones_wait_for_a_middle_one_and_are_done_in_order(kind: Kind, form: &'static str) {
    let scene = Scene::new(kind, form);
    scene.world.put(&lanes());
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    assert_eq!(
        (scene.done_of(0..10), scene.done_of(10..20)),
        (vec![1], (11..16).collect()),
        "{form}: the others go on"
    );
    let letters = scene.world.letters();
    let stand: Vec<_> = letters.iter().map(|letter| (letter.state, &*letter.reason, letter.attempts)).collect();
    let parked = (LetterState::Parked, "parked", 0);
    assert_eq!(stand, [(LetterState::Open, "exhausted", 2), parked, parked, parked], "{form}");
    assert_whole(&scene.letter(4), &good("a", [4])[0]);
    let [lane] = &scene.lanes()[..] else { panic!("{form}: one lane") };
    let head = scene.letter(2).id;
    assert_eq!((lane.head, lane.waiting, lane.key.as_deref()), (head, 3, Some(&b"a"[..])), "{form}");

    // Nobody runs a later one first.
    let last = scene.letter(5).id;
    assert_eq!(scene.world.ask_for(&[last]), [(last, Answer::Stands(LetterState::Parked))], "{form}");
    let foreseen = wait_for(scene.operator().foresee(&Filter::default().ids([last]))).expect("looks");
    assert_eq!(foreseen, [(last, Foreseen::Waits { behind: head })], "{form}");

    scene.world.put(&good("a", 6..8));
    scene.world.settled(PATIENCE);
    scene.mended.to(1);
    assert_eq!(scene.world.ask(), [(head, Answer::Done)], "{form}");
    scene.rests();
    assert_eq!(scene.done_of(0..10), (1..8).collect::<Vec<_>>(), "{form}: in order");
    assert_eq!((scene.lanes(), scene.world.letters().len()), (vec![], 6), "{form}");
    scene.world.put(&good("a", 8..10));
    scene.world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!((scene.done_of(0..10), scene.world.letters().len()), ((1..10).collect(), 6), "{form}: as ever");
}

/// The other half of a lane waits in Kafka while it is decided, and its owner is another one by then.
pub fn who_is_assigned_later_knows_of_the_lane(kind: Kind, form: &'static str) {
    let scene = Scene::new(kind, form);
    scene.world.put(&lanes());
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    scene.world.put(&good("a", 6..9));
    scene.world.put(&good("b", 16..19));
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    assert_eq!((scene.done_of(0..10), scene.done_of(10..20)), (vec![1], (11..19).collect()), "{form}");
    scene.mended.to(1);
    scene.world.ask();
    scene.rests();
    worker.stop().expect("a clean stop");
    assert_eq!(scene.done_of(0..10), (1..9).collect::<Vec<_>>(), "{form}");
}

pub fn a_skipped_head_lets_the_next_go_and_one_that_fails_again_holds_the_rest(kind: Kind) {
    for form in FORMS {
        let scene = Scene::new(kind, form);
        scene.world.put(&[&[bad("a", 1, 9)][..], &good("a", 2..4), &[bad("a", 4, 1)], &good("a", 5..8)].concat());
        let worker = scene.work();
        scene.world.settled(PATIENCE);
        assert!(scene.done().is_empty(), "{form}");
        scene.skip(scene.letter(6).id);
        scene.skip(scene.letter(1).id);
        scene.until("the fourth failed again", |scene| scene.letter(4).state == LetterState::Open);
        assert_eq!(scene.done(), [2, 3], "{form}");
        let lane = scene.lanes().remove(0);
        assert_eq!((lane.head, lane.waiting), (scene.letter(4).id, 2), "{form}");
        assert_eq!(scene.letter(4).reason, "exhausted", "{form}");
        let history = scene.world.shown(lane.head).history;
        assert_eq!((history[0].state, history[0].by.as_deref()), (LetterState::Requested, None), "{form}");
        assert_eq!(history[0].detail.as_deref(), Some("released"), "{form}");

        scene.mended.to(1);
        scene.world.ask();
        scene.rests();
        worker.stop().expect("a clean stop");
        assert_eq!(scene.done(), [2, 3, 4, 5, 7], "{form}");
        assert_eq!(scene.lanes(), [], "{form}");
        let skipped = scene.states().into_iter().filter(|state| *state == LetterState::Skipped).count();
        assert_eq!(skipped, 2, "{form}");
    }
}

/// One that was parked has never been run: it is tried as often as any other before it holds the rest.
pub fn a_released_one_has_all_attempts_of_its_job(kind: Kind) {
    let scene = Scene::new(kind, "single");
    let flaky = wire("a", &Work { id: 2, note: "flaky".to_owned(), ..Work::default() });
    scene.world.put(&[&[bad("a", 1, 1), flaky, bad("a", 3, 2)][..], &good("a", [4])].concat());
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    scene.mended.to(1);
    scene.world.ask();
    scene.until("the third one failed for good", |scene| scene.letter(3).state == LetterState::Open);
    assert_eq!(scene.done(), [1, 2]);
    let third = scene.letter(3);
    assert_eq!((&*third.reason, third.attempts), ("exhausted", 2));
    assert!(third.error.contains("all 2 attempt(s) failed"), "{}", third.error);
    // Asked for by a person it is run once.
    scene.world.ask();
    scene.until("it failed again", |scene| scene.letter(3).attempts == 3);
    scene.mended.to(2);
    scene.world.ask();
    scene.rests();
    worker.stop().expect("a clean stop");
    assert_eq!((scene.done(), scene.lanes()), (vec![1, 2, 3, 4], vec![]));
}

/// Duplicates, conflicts, tombstones, and what cannot be read, in a lane that waits.
pub fn what_need_not_be_run_is_not_parked(kind: Kind) {
    for form in FORMS {
        let scene = Scene::new(kind, form);
        let tombstone = Wire { key: Some("a".into()), ..Wire::default() };
        let unreadable = Wire { payload: Some(b"{".to_vec()), ..tombstone.clone() };
        let other = wire("a", &Work { id: 1, note: "other".to_owned(), ..Work::default() });
        scene.world.put(&[&good("a", [1])[..], &[bad("a", 2, 1)], &good("a", [3, 1, 3]), &[bad("a", 2, 1)]].concat());
        scene.world.put(&[tombstone, other, unreadable]);
        scene.world.put(&good("a", [4]));
        let worker = scene.work();
        scene.world.settled(PATIENCE);
        let stand = |scene: &Scene| -> Vec<_> {
            scene.world.letters().into_iter().map(|letter| (letter.reason, letter.state)).collect()
        };
        let expected = [
            ("exhausted", LetterState::Open),
            ("parked", LetterState::Parked),
            ("tombstone", LetterState::Open),
            ("conflict", LetterState::Open),
            ("parked", LetterState::Parked),
            ("parked", LetterState::Parked),
        ];
        assert_eq!(stand(&scene), expected.map(|(reason, state)| (reason.to_owned(), state)), "{form}");

        // The one that cannot be read is the next that holds the lane.
        scene.mended.to(1);
        let head = scene.lanes()[0].head;
        scene.world.ask_for(&[head]);
        scene.until("the lane waits behind what cannot be read", |scene| {
            let unread = &scene.world.letters()[4];
            (&*unread.reason, unread.state) == ("decode", LetterState::Open)
        });
        assert_eq!((scene.done(), scene.lanes()[0].waiting), (vec![1, 2, 3], 1), "{form}");
        scene.skip(scene.lanes()[0].head);
        scene.rests();
        worker.stop().expect("a clean stop");
        assert_eq!((scene.done(), scene.lanes()), (vec![1, 2, 3, 4], vec![]), "{form}");
    }
}

/// A lane can wait behind a message that cannot even be read; and behind one of no lane nobody waits.
pub fn what_cannot_be_read_holds_its_lane_and_what_has_no_kafka_key_holds_nobody(kind: Kind) {
    let scene = Scene::new(kind, "single");
    let unreadable = Wire { key: Some("a".into()), payload: Some(b"{".to_vec()), ..Wire::default() };
    let keyless = |wire: Wire| Wire { key: None, ..wire };
    scene.world.put(&[unreadable, keyless(bad("", 10, 9))]);
    scene.world.put(&good("a", 1..4));
    scene.world.put(&good("", 11..13).into_iter().map(keyless).collect::<Vec<_>>());
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    let mut done = scene.done();
    done.sort_unstable();
    assert_eq!(done, [11, 12]);
    let lane = scene.lanes().remove(0);
    assert_eq!((lane.waiting, &*scene.world.shown(lane.head).letter.reason), (3, "decode"));
    worker.stop().expect("a clean stop");

    // Also after it comes again, to a worker that knows it by its coordinates alone.
    scene.world.put(&good("a", 4..6));
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    assert_eq!(scene.lanes()[0].waiting, 5);
    scene.skip(lane.head);
    scene.rests();
    worker.stop().expect("a clean stop");
    assert_eq!(scene.done_of(0..10), [1, 2, 3, 4, 5]);
}

/// Two jobs on one topic: only the one that says so waits.
pub fn another_job_of_the_topic_goes_on(kind: Kind) {
    for form in FORMS {
        let scene = Scene::new(kind, form);
        scene.world.put(&lanes());
        let worker = scene.work_beside(&["beside"]);
        scene.world.settled(PATIENCE);
        let beside = format!("beside_{kind}");
        let of_a = |ids: Vec<i64>| ids.into_iter().filter(|id| *id < 10).collect::<Vec<_>>();
        assert_eq!(of_a(scene.done()), [1], "{form}");
        assert_eq!(of_a(scene.world.database.ids(&beside)), [1, 3, 4, 5], "{form}");
        scene.mended.to(1);
        scene.world.ask();
        scene.rests();
        worker.stop().expect("a clean stop");
        assert_eq!(of_a(scene.done()), [1, 2, 3, 4, 5], "{form}");
        assert_eq!(of_a(scene.world.database.ids(&beside)), [1, 3, 4, 5, 2], "{form}: a dead letter of its own");
        assert_eq!(scene.lanes(), [], "{form}");
    }
}

/// With `ordering = partition` the whole partition is one lane, and the other partition another.
pub fn a_partition_waits_as_a_whole(kind: Kind) {
    let scene = Scene::new(kind, "partition");
    scene.world.put(&lanes());
    let on_1 = |wire: Wire| Wire { partition: 1, ..wire };
    scene.world.put(&good("a", 21..24).into_iter().map(on_1).collect::<Vec<_>>());
    let worker = scene.work();
    scene.world.settled(PATIENCE);
    assert_eq!((scene.done_of(0..20), scene.done_of(20..30)), (vec![1, 11], vec![21, 22, 23]));
    scene.mended.to(1);
    wait_for(scene.operator().redrive(&Filter::open(), WHO)).expect("a redrive can be asked for");
    scene.rests();
    worker.stop().expect("a clean stop");
    assert_eq!(scene.done_of(0..20), [1, 11, 2, 12, 3, 13, 4, 14, 5, 15], "the order of the log");
}
