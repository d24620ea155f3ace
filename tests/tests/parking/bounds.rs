//! A lane that takes in no more.

use std::time::Duration;

use idempotent_jobs::dead_letters::LetterState;
use tests::PATIENCE;
use tests::database::Kind;

use super::scene::{Scene, bad, good};

pub fn the_next_message_of_a_full_lane_waits_and_the_other_lanes_go_on(kind: Kind) {
    let scene = Scene::new(kind, "bounded");
    let offsets = scene.world.put(&[&[bad("a", 1, 1)][..], &good("a", 2..9), &good("b", 11..31)].concat());
    let worker = scene.work();
    scene.until("the lane is full, and the other one done", |scene| {
        scene.done_of(10..40).len() == 20 && scene.lanes().first().is_some_and(|lane| lane.full_since.is_some())
    });
    let full = |scene: &Scene| (scene.lanes()[0].waiting, scene.world.letters().len(), scene.done_of(0..10));
    assert_eq!(full(&scene), (3, 4, vec![]));
    // Looked at again and again, it is neither run nor given up, and uses no attempt.
    scene.world.events.wait_briefly(Duration::from_secs(5), |seen| seen.has_ended(worker.source));
    assert_eq!(full(&scene), (3, 4, vec![]));
    assert!(scene.world.broker.committed(&scene.world.group, "parking", 2)[0] <= offsets[4], "its offset stays");

    // Room for one.
    scene.skip(scene.letter(3).id);
    scene.until("it is taken in, and the lane is full again", |scene| {
        scene.world.letters().len() == 5 && scene.lanes()[0].full_since.is_some()
    });
    scene.mended.to(1);
    scene.world.ask();
    scene.world.settled(PATIENCE);
    scene.until("all are done", |scene| scene.done_of(0..10).len() == 7);
    worker.stop().expect("a clean stop");
    assert_eq!(scene.done_of(0..10), [1, 2, 4, 5, 6, 7, 8], "in order, without the one that was skipped");
    assert_eq!(scene.lanes(), []);
    assert!(!scene.states().contains(&LetterState::Open));
}
