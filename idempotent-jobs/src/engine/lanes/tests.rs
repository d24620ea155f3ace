use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::message::{Coordinates, Headers};

fn partition(number: i32) -> Partition {
    Partition { topic: "orders".into(), number }
}

fn message(number: i32, offset: i64) -> Message {
    let coordinates = Coordinates { topic: "orders".into(), partition: number, offset };
    Message { coordinates, key: None, payload: None, headers: Headers::default(), timestamp: None }
}

fn lanes(partitions: i32, bounds: Bounds) -> Lanes<u32> {
    let mut lanes = Lanes::new(bounds);
    (0..partitions).for_each(|number| lanes.assign(&partition(number)));
    lanes
}

fn push_all(lanes: &mut Lanes<u32>, number: i32, offsets: std::ops::Range<i64>) {
    for offset in offsets {
        lanes.push(message(number, offset));
    }
}

fn task(lanes: &mut Lanes<u32>, now: Instant) -> Task<u32> {
    match lanes.take(now) {
        Next::Task(task) => task,
        other => panic!("expected a task, got {other:?}"),
    }
}

fn at(task: &Task<u32>) -> (i32, i64) {
    (task.message.coordinates.partition, task.message.coordinates.offset)
}

#[test]
fn a_partition_runs_one_message_at_a_time_and_partitions_side_by_side() {
    let now = Instant::now();
    let mut lanes = lanes(2, Bounds::default());
    for (number, offset) in [(0, 0), (0, 1), (1, 0)] {
        lanes.push(message(number, offset));
    }
    let first = task(&mut lanes, now);
    let second = task(&mut lanes, now);
    assert_eq!((at(&first), at(&second)), ((0, 0), (1, 0)));
    assert!(matches!(lanes.take(now), Next::Idle));
    assert!(lanes.settle(&first));
    assert_eq!(at(&task(&mut lanes, now)), (0, 1));
}

#[test]
fn ret_01_a_message_in_backoff_is_not_overtaken_in_its_lane() {
    let now = Instant::now();
    let due = now + Duration::from_secs(1);
    let mut lanes = lanes(1, Bounds::default());
    push_all(&mut lanes, 0, 0..3);
    let first = task(&mut lanes, now);
    assert!(lanes.retry(first, due));
    assert!(matches!(lanes.take(now), Next::Until(until) if until == due));
    let again = task(&mut lanes, due);
    assert_eq!(at(&again), (0, 0));
    lanes.settle(&again);
    assert_eq!(at(&task(&mut lanes, due)), (0, 1));
}

#[test]
fn con_08_a_result_of_an_old_epoch_changes_nothing() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds::default());
    lanes.push(message(0, 4));
    let zombie = task(&mut lanes, now);
    lanes.assign(&partition(0));
    lanes.push(message(0, 4));
    let current = task(&mut lanes, now);
    assert!(!lanes.settle(&zombie));
    assert_eq!(lanes.running(&[partition(0)]), 1);
    assert!(lanes.to_commit(&[partition(0)]).is_empty());
    assert!(lanes.settle(&current));
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 5);
}

#[test]
fn con_02_queued_messages_of_a_drained_partition_count_as_not_done() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds::default());
    push_all(&mut lanes, 0, 0..3);
    let first = task(&mut lanes, now);
    lanes.drain(&partition(0));
    lanes.settle(&first);
    assert!(matches!(lanes.take(now), Next::Idle));
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 1);
}

#[test]
fn err_01_nothing_behind_a_message_that_was_given_up_is_started() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds::default());
    push_all(&mut lanes, 0, 0..3);
    let given_up = task(&mut lanes, now);
    assert!(lanes.halt(&given_up));
    push_all(&mut lanes, 0, 3..5);
    assert!(matches!(lanes.take(now), Next::Idle));
    assert!(lanes.to_commit(&[partition(0)]).is_empty());
}

#[test]
fn con_08_a_failed_message_of_a_drained_partition_is_not_started_again() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds::default());
    push_all(&mut lanes, 0, 0..2);
    let failed = task(&mut lanes, now);
    lanes.drain(&partition(0));
    assert!(lanes.retry(failed, now));
    assert_eq!(lanes.running(&[partition(0)]), 0);
    assert!(matches!(lanes.take(now), Next::Idle));
}

#[test]
fn con_13_a_full_lane_asks_for_a_pause_and_is_relieved_at_half() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds { messages: 4, bytes: usize::MAX });
    let rooms: Vec<Room> = (0..5).map(|offset| lanes.push(message(0, offset))).collect();
    assert_eq!(rooms, [Room::Open, Room::Open, Room::Open, Room::Full, Room::Full]);
    let mut runs = 0;
    while lanes.relieved().is_empty() {
        let next = task(&mut lanes, now);
        lanes.settle(&next);
        runs += 1;
    }
    assert_eq!(runs, 3);
    lanes.assign(&partition(0));
    assert_eq!(lanes.push(message(0, 9)), Room::Open);
}

#[test]
fn a_lane_is_bounded_by_bytes_too() {
    let size = message(0, 0).size();
    let mut lanes = lanes(1, Bounds { messages: usize::MAX, bytes: 2 * size });
    assert_eq!(lanes.push(message(0, 0)), Room::Open);
    assert_eq!(lanes.push(message(0, 1)), Room::Full);
}

#[test]
fn a_position_that_goes_back_is_read_again_and_never_skipped() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds::default());
    lanes.push(message(0, 7));
    let first = task(&mut lanes, now);
    lanes.settle(&first);
    lanes.push(message(0, 3));
    let again = task(&mut lanes, now);
    assert_eq!(at(&again), (0, 3));
    lanes.settle(&again);
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 4);
}

#[test]
fn a_message_of_a_partition_given_up_is_left_to_its_next_owner() {
    let mut lanes = lanes(1, Bounds::default());
    lanes.forget(&partition(0));
    lanes.push(message(0, 0));
    assert!(matches!(lanes.take(Instant::now()), Next::Idle));
    assert!(lanes.assigned().is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Push(i32),
    Take,
    Settle(prop::sample::Index),
    Retry(prop::sample::Index),
    Rebalance(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3).prop_map(Step::Push),
        4 => Just(Step::Take),
        3 => any::<prop::sample::Index>().prop_map(Step::Settle),
        1 => any::<prop::sample::Index>().prop_map(Step::Retry),
        1 => (0..3).prop_map(Step::Rebalance),
    ]
}

proptest! {
    /// Within an epoch a lane settles offsets strictly in order, and what is to be committed is
    /// exactly the settled prefix.
    #[test]
    fn no_lane_reorders_and_no_commit_passes_an_unsettled_offset(steps in prop::collection::vec(step(), 1..200)) {
        let now = Instant::now();
        let mut lanes = lanes(3, Bounds::default());
        let mut log = [0i64; 3];
        let mut committed = [0i64; 3];
        let mut settled: HashMap<i32, i64> = HashMap::new();
        let mut running: Vec<Task<u32>> = Vec::new();
        for step in steps {
            match step {
                Step::Push(number) => {
                    lanes.push(message(number, log[number as usize]));
                    log[number as usize] += 1;
                }
                Step::Take => if let Next::Task(task) = lanes.take(now) { running.push(task) },
                Step::Settle(index) if !running.is_empty() => {
                    let task = running.swap_remove(index.index(running.len()));
                    if lanes.settle(&task) {
                        let (number, offset) = at(&task);
                        prop_assert_eq!(settled.insert(number, offset).map_or(committed[number as usize], |last| last + 1), offset);
                    }
                }
                Step::Retry(index) if !running.is_empty() => {
                    let task = running.swap_remove(index.index(running.len()));
                    lanes.retry(task, now);
                }
                Step::Rebalance(number) => {
                    for position in lanes.to_commit(&[partition(number)]) {
                        prop_assert_eq!(Some(position.offset - 1), settled.get(&number).copied());
                        committed[number as usize] = position.offset;
                    }
                    settled.remove(&number);
                    lanes.assign(&partition(number));
                    push_all(&mut lanes, number, committed[number as usize]..log[number as usize]);
                }
                Step::Settle(_) | Step::Retry(_) => {}
            }
        }
    }
}
