//! Who waits for whom when one of a group fails, and when jobs of several kinds read a topic.

use tests::database::Kind;

use super::scene::{Message, Scene, message};

/// The first five are of one Kafka key and the first of all fails; five more are of others.
fn first_fails() -> Vec<Message> {
    let lane = |id| message(id).keyed("lane");
    let failing = lane(0).doing("fail", 3);
    [failing].into_iter().chain((1..5).map(lane)).chain((5..10).map(message)).collect()
}

pub fn ret_01_those_behind_a_failed_one_of_their_key_wait_and_the_others_go_on(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        scene.send(&first_fails());
        let source = scene.work_off(&[form]);
        scene.assert_tried(source, 10);
        assert_eq!(scene.attempts(form, 0), [1, 1, 2, 3]);
        let ids = scene.ids(form);
        let lane: Vec<i64> = ids.iter().copied().filter(|id| *id < 5).collect();
        assert_eq!(lane, [0, 1, 2, 3, 4], "{form}: a key's order");
        let others: Vec<i64> = ids.iter().copied().take(5).collect();
        assert_eq!(others, [5, 6, 7, 8, 9], "{form}: other keys wait for nothing");
    }
}

pub fn ret_01_a_partitions_order_is_kept_when_one_of_a_group_fails(kind: Kind) {
    let scene = Scene::new(kind);
    let mut messages: Vec<Message> = (0..10).map(message).collect();
    messages[3] = message(3).doing("fail", 3);
    scene.send(&messages);
    let source = scene.work_off(&["in_a_row"]);
    scene.assert_tried(source, 10);
    assert_eq!(scene.ids("in_a_row"), (0..10).collect::<Vec<_>>());
}

pub fn ret_01_without_an_order_none_waits_and_each_runs_once(kind: Kind) {
    let scene = Scene::new(kind);
    let lane = |id| message(id).keyed("lane");
    scene.send(&[lane(0).doing("fail", 3)].into_iter().chain((1..10).map(lane)).collect::<Vec<_>>());
    let source = scene.work_off(&["unordered"]);
    scene.assert_tried(source, 10);
    assert_eq!(scene.ids("unordered").last(), Some(&0), "nobody waited for it");
    assert_eq!(scene.sorted("unordered"), (0..10).collect::<Vec<_>>());
}

pub fn ret_01_messages_without_a_kafka_key_wait_for_none(kind: Kind) {
    for form in ["shared", "batch"] {
        let scene = Scene::new(kind);
        let keyless = |id| message(id).keyless();
        scene.send(&[keyless(0).doing("fail", 3)].into_iter().chain((1..10).map(keyless)).collect::<Vec<_>>());
        let source = scene.work_off(&[form]);
        scene.assert_tried(source, 10);
        assert_eq!(scene.ids(form).last(), Some(&0), "{form}: nobody waited for it");
        assert_eq!(scene.sorted(form), (0..10).collect::<Vec<_>>());
    }
}

/// Three keys, and the first message of one fails in each job.
pub fn ded_03_jobs_of_every_kind_on_one_topic_see_each_message_once(kind: Kind) {
    const FORMS: [&str; 3] = ["single", "shared", "batch"];
    let scene = Scene::new(kind);
    let mut messages: Vec<Message> = (0..30).map(|id| message(id).keyed(&(id % 3).to_string())).collect();
    messages[0] = messages[0].clone().doing("fail", 2);
    scene.send(&messages);
    let source = scene.work_off(&FORMS);
    scene.assert_tried(source, 30);
    scene.assert_done(source, 9);
    for form in FORMS {
        assert_eq!(scene.sorted(form), (0..30).collect::<Vec<_>>(), "{form}");
        for lane in 0..3 {
            let ids: Vec<i64> = scene.ids(form).into_iter().filter(|id| id % 3 == lane).collect();
            assert!(ids.is_sorted(), "{form}: {ids:?}");
        }
    }
    assert_eq!(scene.world.skipped(), 0);
}
