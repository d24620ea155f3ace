use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::message::{Coordinates, Headers};

const BOUNDS: Bounds = Bounds { memory: usize::MAX, span: usize::MAX };

fn partition(number: i32) -> Partition {
    Partition { topic: "orders".into(), number }
}

fn message(number: i32, offset: i64) -> Message {
    let coordinates = Coordinates { topic: "orders".into(), partition: number, offset };
    Message { coordinates, key: None, payload: None, headers: Headers::default(), timestamp: None }
}

/// Class 0 is taken one by one, class 1 up to four together.
fn lanes(partitions: i32, bounds: Bounds) -> Lanes<u32> {
    let mut lanes = Lanes::new(bounds);
    (0..partitions).for_each(|number| assign(&mut lanes, number));
    lanes
}

/// An assignment about which nothing is suspect.
fn assign(lanes: &mut Lanes<u32>, number: i32) {
    lanes.assign_at(&partition(number), i64::MAX);
    lanes.assignments.get_mut(&partition(number)).expect("just assigned").trust();
}

fn push(lanes: &mut Lanes<u32>, number: i32, offset: i64, lane: u64) -> Room {
    lanes.push(message(number, offset), Place { lane, class: 0 })
}

fn limit(class: usize) -> usize {
    [1, 4][class]
}

fn group(lanes: &mut Lanes<u32>, now: Instant) -> Group<u32> {
    match lanes.take(now, 1, limit) {
        Next::Group(group) => group,
        other => panic!("expected messages, got {other:?}"),
    }
}

fn task(lanes: &mut Lanes<u32>, now: Instant) -> Task<u32> {
    let mut group = group(lanes, now);
    assert_eq!(group.tasks.len(), 1, "taken alone");
    group.tasks.remove(0)
}

fn settle(lanes: &mut Lanes<u32>, task: Task<u32>) {
    lanes.conclude(vec![(task, End::Settled)]);
}

fn back(due: Option<Instant>, alone: bool) -> End {
    End::Back(Back { due, alone, looked: false })
}

fn at(task: &Task<u32>) -> (i32, i64) {
    (task.message.coordinates.partition, task.message.coordinates.offset)
}

fn offsets(group: &Group<u32>) -> Vec<i64> {
    group.tasks.iter().map(|task| at(task).1).collect()
}

#[test]
fn messages_of_one_lane_wait_for_each_other_and_those_of_others_do_not() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    for (offset, lane) in [(0, 7), (1, 7), (2, 8)] {
        push(&mut lanes, 0, offset, lane);
    }
    let (first, other) = (task(&mut lanes, now), task(&mut lanes, now));
    assert_eq!((at(&first), at(&other)), ((0, 0), (0, 2)));
    assert!(matches!(lanes.take(now, 1, limit), Next::Idle));
    settle(&mut lanes, first);
    assert_eq!(at(&task(&mut lanes, now)), (0, 1));
}

#[test]
fn con_20_a_key_with_much_to_do_starves_neither_other_keys_nor_other_partitions() {
    let now = Instant::now();
    let mut lanes = lanes(2, BOUNDS);
    (0..50).for_each(|offset| _ = push(&mut lanes, 0, offset, 7));
    push(&mut lanes, 0, 50, 8);
    push(&mut lanes, 1, 0, 7);
    let taken: Vec<_> = (0..4)
        .map(|_| {
            let task = task(&mut lanes, now);
            let at = at(&task);
            settle(&mut lanes, task);
            at
        })
        .collect();
    assert_eq!(taken, [(0, 0), (1, 0), (0, 50), (0, 1)]);
}

#[test]
fn con_20_a_key_in_backoff_gives_its_place_to_the_others() {
    let now = Instant::now();
    let due = now + Duration::from_secs(60);
    let mut lanes = lanes(1, BOUNDS);
    push(&mut lanes, 0, 0, 7);
    push(&mut lanes, 0, 1, 8);
    let failed = task(&mut lanes, now);
    lanes.conclude(vec![(failed, back(Some(due), true))]);
    let other = task(&mut lanes, now);
    assert_eq!(at(&other), (0, 1));
    settle(&mut lanes, other);
    assert!(matches!(lanes.take(now, 1, limit), Next::Until(until) if until == due));
}

#[test]
fn ret_01_a_message_in_backoff_is_not_overtaken_in_its_lane() {
    let now = Instant::now();
    let due = now + Duration::from_secs(1);
    let mut lanes = lanes(1, BOUNDS);
    (0..3).for_each(|offset| _ = push(&mut lanes, 0, offset, 7));
    let first = task(&mut lanes, now);
    lanes.conclude(vec![(first, back(Some(due), true))]);
    assert!(matches!(lanes.take(now, 1, limit), Next::Until(until) if until == due));
    let again = task(&mut lanes, due);
    assert_eq!(at(&again), (0, 0));
    settle(&mut lanes, again);
    assert_eq!(at(&task(&mut lanes, due)), (0, 1));
}

#[test]
fn con_10_who_is_urgent_goes_first_when_its_lane_lets_it() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    for (offset, lane) in [(0, 7), (1, 8), (2, 9), (3, 7)] {
        push(&mut lanes, 0, offset, lane);
    }
    let epoch = lanes.epoch(&partition(0)).expect("it is assigned");
    lanes.urge(epoch, [2, 3, 4]);
    lanes.urge(epoch + 1, [1]);
    let first = task(&mut lanes, now);
    assert_eq!(at(&first).1, 2, "it was waiting");
    push(&mut lanes, 0, 4, 6);
    let second = task(&mut lanes, now);
    assert_eq!(at(&second).1, 4, "it came later");
    lanes.conclude(vec![(first, back(None, true))]);
    let first = task(&mut lanes, now);
    assert_eq!(at(&first).1, 2, "it came back");
    let third = task(&mut lanes, now);
    assert_eq!(at(&third).1, 0);
    settle(&mut lanes, third);
    let fourth = task(&mut lanes, now);
    assert_eq!(at(&fourth).1, 3, "behind the one before it in its lane, and before the others");
    lanes.conclude(vec![(fourth, back(Some(now), false))]);
    assert_eq!(at(&task(&mut lanes, now)).1, 1, "one that had its turn waits behind the others");
}

#[test]
fn a_group_is_of_one_class_and_keeps_the_order_of_its_lanes() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    for (offset, lane, class) in [(0, 7, 1), (1, 7, 1), (2, 8, 1), (3, 7, 0), (4, 7, 1), (5, 9, 1)] {
        lanes.push(message(0, offset), Place { lane, class });
    }
    let taken = group(&mut lanes, now);
    assert_eq!((taken.class, offsets(&taken)), (1, vec![0, 1, 2, 5]));
    assert!(matches!(lanes.take(now, 1, limit), Next::Idle), "3 and 4 wait for 0 and 1");
    let mut tasks = taken.tasks.into_iter();
    let mut next = || tasks.next().expect("four were taken");
    lanes.conclude(vec![
        (next(), back(None, true)),
        (next(), back(None, false)),
        (next(), End::Settled),
        (next(), End::Settled),
    ]);
    assert_eq!(at(&task(&mut lanes, now)), (0, 0), "what failed runs alone, before what was behind it");
}

#[test]
fn a_group_is_filled_from_several_partitions() {
    let now = Instant::now();
    let mut lanes = lanes(3, BOUNDS);
    (0..3).for_each(|number| _ = lanes.push(message(number, 0), Place { lane: 7, class: 1 }));
    assert_eq!(group(&mut lanes, now).tasks.len(), 3);
}

#[test]
fn one_that_runs_alone_joins_no_group_of_another_partition() {
    let now = Instant::now();
    let mut lanes = lanes(2, BOUNDS);
    lanes.push(message(1, 0), Place { lane: 7, class: 1 });
    let failed = task(&mut lanes, now);
    lanes.conclude(vec![(failed, back(None, true))]);
    (0..3).for_each(|offset| _ = lanes.push(message(0, offset), Place { lane: offset as u64, class: 1 }));
    let mut sizes: Vec<usize> = (0..2).map(|_| group(&mut lanes, now).tasks.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 3]);
}

#[test]
fn con_20_a_group_that_is_not_filled_keeps_nobody_from_its_turn() {
    let now = Instant::now();
    let mut lanes = lanes(2, BOUNDS);
    push(&mut lanes, 1, 0, 7);
    for offset in 0..3 {
        lanes.push(message(0, offset), Place { lane: offset as u64, class: 1 });
        let taken = group(&mut lanes, now);
        if taken.class == 0 {
            return;
        }
        lanes.conclude(taken.tasks.into_iter().map(|task| (task, End::Settled)).collect());
    }
    panic!("partition 1 was never served");
}

#[test]
fn few_messages_are_spread_over_the_workers() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    (0..4).for_each(|offset| _ = lanes.push(message(0, offset), Place { lane: offset as u64, class: 1 }));
    let Next::Group(taken) = lanes.take(now, 2, limit) else { panic!("messages wait") };
    assert_eq!(offsets(&taken), [0, 1]);
}

#[test]
fn messages_that_cannot_be_taken_do_not_count_as_waiting() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    (0..40).for_each(|offset| _ = lanes.push(message(0, offset), Place { lane: 7, class: 0 }));
    let _hot = task(&mut lanes, now);
    (40..44).for_each(|offset| _ = lanes.push(message(0, offset), Place { lane: offset as u64, class: 1 }));
    let Next::Group(taken) = lanes.take(now, 4, limit) else { panic!("messages wait") };
    assert_eq!(taken.tasks.len(), 1);
}

#[test]
fn con_20_a_backlog_that_nothing_holds_up_is_not_said_to_be() {
    let mut lanes = lanes(1, Bounds { span: 4, ..BOUNDS });
    (0..4).for_each(|offset| _ = push(&mut lanes, 0, offset, offset as u64));
    assert!(lanes.held_up().is_empty());
}

#[test]
fn what_comes_after_an_assignment_is_looked_for_first_and_then_no_more() {
    let now = Instant::now();
    let mut lanes = lanes(0, BOUNDS);
    lanes.assign_at(&partition(0), i64::MAX);
    let count = LOOK_FROM as i64;
    (0..count).for_each(|offset| _ = push(&mut lanes, 0, offset, offset as u64 % 3));
    let looked = group(&mut lanes, now);
    assert!(looked.looking);
    assert_eq!(looked.tasks.len(), LOOK_FROM);
    let looked_at = |task: Task<u32>| {
        let seen = at(&task).1 < 4;
        (task, if seen { End::Settled } else { End::Back(Back { looked: true, ..Back::default() }) })
    };
    lanes.conclude(looked.tasks.into_iter().map(looked_at).collect());
    let first = group(&mut lanes, now);
    assert!(!first.looking);
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 4);
    lanes.trust(&first.tasks[0]);
    (count..2 * count).for_each(|offset| _ = push(&mut lanes, 0, offset, offset as u64));
    assert!(!group(&mut lanes, now).looking);
    (0..STREAK).for_each(|_| lanes.note(&first.tasks[0], true));
    assert!((0..5).any(|_| group(&mut lanes, now).looking), "duplicates in a row make the rest suspect");
}

#[test]
fn con_08_a_result_of_an_old_epoch_changes_nothing() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    push(&mut lanes, 0, 4, 7);
    let zombie = task(&mut lanes, now);
    assign(&mut lanes, 0);
    assert!(!lanes.may_start(&zombie));
    push(&mut lanes, 0, 4, 7);
    let current = task(&mut lanes, now);
    settle(&mut lanes, zombie);
    assert_eq!(lanes.running(&[partition(0)]), 1);
    assert!(lanes.to_commit(&[partition(0)]).is_empty());
    settle(&mut lanes, current);
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 5);
}

#[test]
fn con_08_nothing_is_taken_of_a_partition_in_doubt_before_it_is_known_where_it_begins() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    push(&mut lanes, 0, 4, 7);
    let running = task(&mut lanes, now);
    lanes.assign(&partition(0));
    lanes.drain(&partition(0));
    assert_eq!(push(&mut lanes, 0, 5, 7), Room::Open);
    assert!(matches!(lanes.take(now, 1, limit), Next::Idle), "5 runs not ahead of 4");
    assert!(lanes.starts().is_empty(), "nor does the assignment begin at it");
    lanes.assign_at(&partition(0), 4);
    settle(&mut lanes, running);
    (4..6).for_each(|offset| _ = push(&mut lanes, 0, offset, 7));
    assert_eq!(lanes.starts()[0].from.offset, 4);
    assert_eq!(at(&task(&mut lanes, now)), (0, 4));
}

#[test]
fn con_02_queued_messages_of_a_drained_partition_count_as_not_done() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    (0..3).for_each(|offset| _ = push(&mut lanes, 0, offset, 7));
    let first = task(&mut lanes, now);
    lanes.drain(&partition(0));
    assert!(!lanes.may_start(&first), "taken, and not started yet");
    settle(&mut lanes, first);
    assert!(matches!(lanes.take(now, 1, limit), Next::Idle));
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 1);
}

#[test]
fn err_01_nothing_behind_a_message_that_was_given_up_is_started() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    (0..3).for_each(|offset| _ = push(&mut lanes, 0, offset, offset as u64));
    let (given_up, other) = (task(&mut lanes, now), task(&mut lanes, now));
    lanes.conclude(vec![(given_up, End::Halt)]);
    settle(&mut lanes, other);
    (3..5).for_each(|offset| _ = push(&mut lanes, 0, offset, offset as u64));
    assert!(matches!(lanes.take(now, 1, limit), Next::Idle));
    assert!(lanes.to_commit(&[partition(0)]).is_empty());
}

#[test]
fn con_08_a_failed_message_of_a_drained_partition_is_not_started_again() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    (0..2).for_each(|offset| _ = push(&mut lanes, 0, offset, 7));
    let failed = task(&mut lanes, now);
    lanes.drain(&partition(0));
    lanes.conclude(vec![(failed, back(None, true))]);
    assert_eq!(lanes.running(&[partition(0)]), 0);
    assert!(matches!(lanes.take(now, 1, limit), Next::Idle));
}

#[test]
fn con_13_a_full_partition_asks_for_a_pause_and_is_relieved_at_half() {
    let now = Instant::now();
    let memory = 4 * assignment::cost(&message(0, 0));
    let mut lanes = lanes(1, Bounds { memory, ..BOUNDS });
    let rooms: Vec<Room> = (0..5).map(|offset| push(&mut lanes, 0, offset, 7)).collect();
    assert_eq!(rooms, [Room::Open, Room::Open, Room::Open, Room::Full, Room::Full]);
    let mut runs = 0;
    while lanes.relieved().is_empty() {
        let next = task(&mut lanes, now);
        settle(&mut lanes, next);
        runs += 1;
    }
    assert_eq!(runs, 3);
    assign(&mut lanes, 0);
    assert_eq!(push(&mut lanes, 0, 9, 7), Room::Open);
}

#[test]
fn con_21_partitions_share_the_memory_evenly() {
    let memory = 4 * assignment::cost(&message(0, 0));
    let mut lanes = lanes(2, Bounds { memory, ..BOUNDS });
    assert_eq!(push(&mut lanes, 0, 0, 7), Room::Open);
    assert_eq!(push(&mut lanes, 0, 1, 7), Room::Full);
    assert_eq!(push(&mut lanes, 1, 0, 7), Room::Open);
}

#[test]
fn con_20_a_stuck_message_lets_the_others_go_on_so_far_and_no_farther() {
    let now = Instant::now();
    let mut lanes = lanes(1, Bounds { span: 4, ..BOUNDS });
    push(&mut lanes, 0, 0, 7);
    let stuck = task(&mut lanes, now);
    let mut rooms = Vec::new();
    for offset in 1..4 {
        rooms.push(push(&mut lanes, 0, offset, 8));
        let other = task(&mut lanes, now);
        settle(&mut lanes, other);
    }
    assert_eq!(rooms, [Room::Open, Room::Open, Room::Full]);
    assert!(lanes.to_commit(&[partition(0)]).is_empty(), "the watermark stays");
    assert_eq!(lanes.held_up(), [Position { partition: partition(0), offset: 0 }]);
    assert_eq!((lanes.held_up(), lanes.relieved()), (vec![], vec![]), "told once");
    settle(&mut lanes, stuck);
    assert_eq!(lanes.relieved(), [partition(0)]);
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 4);
}

#[test]
fn a_position_that_goes_back_is_read_again_and_never_skipped() {
    let now = Instant::now();
    let mut lanes = lanes(1, BOUNDS);
    push(&mut lanes, 0, 7, 7);
    let first = task(&mut lanes, now);
    settle(&mut lanes, first);
    push(&mut lanes, 0, 3, 7);
    let again = task(&mut lanes, now);
    assert_eq!(at(&again), (0, 3));
    settle(&mut lanes, again);
    assert_eq!(lanes.to_commit(&[partition(0)])[0].offset, 4);
}

#[test]
fn a_message_of_a_partition_given_up_is_left_to_its_next_owner() {
    let mut lanes = lanes(1, BOUNDS);
    lanes.forget(&partition(0));
    push(&mut lanes, 0, 0, 7);
    assert!(matches!(lanes.take(Instant::now(), 1, limit), Next::Idle));
    assert!(lanes.assigned().is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Push {
        number: i32,
        lane: u64,
        class: usize,
    },
    Take(usize),
    /// Concludes a group; each bit says of a message whether it is settled.
    Conclude(prop::sample::Index, u8),
    Rebalance(i32),
    Drain(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3, 0..4u64, 0..2usize).prop_map(|(number, lane, class)| Step::Push { number, lane, class }),
        4 => (1..4usize).prop_map(Step::Take),
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(index, bits)| Step::Conclude(index, bits)),
        1 => (0..3).prop_map(Step::Rebalance),
        1 => (0..3).prop_map(Step::Drain),
    ]
}

/// What really happened, kept the simple way.
#[derive(Default)]
struct Model {
    next: i64,
    lane_of: HashMap<i64, u64>,
    /// In this epoch: read, and with a worker or settled.
    unsettled: BTreeSet<i64>,
    out: BTreeMap<u64, Vec<i64>>,
    committed: i64,
    paused: bool,
}

proptest! {
    /// Whatever is taken, given back, settled, drained and assigned anew: a lane's messages come in
    /// the order of the log, no commit passes an unsettled one, nothing an old epoch's worker says
    /// counts, and no more is kept than the budget and the one message that filled it.
    #[test]
    fn no_lane_reorders_no_commit_passes_and_memory_is_bounded(
        steps in prop::collection::vec(step(), 1..300),
        share in 2usize..12,
    ) {
        let now = Instant::now();
        let cost = assignment::cost(&message(0, 0));
        let mut lanes = lanes(3, Bounds { memory: 3 * share * cost, span: 2 * share });
        let mut model: [Model; 3] = Default::default();
        let mut epochs = [0u32; 3];
        let mut groups: Vec<(Group<u32>, [u32; 3])> = Vec::new();
        for step in steps {
            match step {
                Step::Push { number, lane, class } => {
                    let (it, index) = (&mut model[number as usize], number as usize);
                    if it.paused { continue }
                    let offset = it.next;
                    it.next += 1;
                    // A message read again after a rebalance keeps its key.
                    let lane = *it.lane_of.entry(offset).or_insert(lane);
                    let closed = lanes.assignments[&partition(number)].closed;
                    if !closed { it.unsettled.insert(offset); }
                    it.paused = lanes.push(message(number, offset), Place { lane, class }) == Room::Full;
                    let kept = &lanes.assignments[&partition(index as i32)];
                    prop_assert!(kept.bytes() <= share * cost + cost);
                    prop_assert!(kept.offsets.span() <= 2 * share);
                }
                Step::Take(workers) => if let Next::Group(group) = lanes.take(now, workers, limit) {
                    prop_assert!(group.tasks.len() <= [1, 4][group.class] || group.looking);
                    for task in &group.tasks {
                        let (number, offset) = at(task);
                        let it = &mut model[number as usize];
                        let lane = it.lane_of[&offset];
                        let first = it.unsettled.iter().find(|offset| it.lane_of[offset] == lane
                            && !it.out.get(&lane).is_some_and(|out| out.contains(offset)));
                        prop_assert_eq!(first, Some(&offset), "before all others of its lane that are not out");
                        let with_it = group.tasks.iter().any(|other| at(other).0 == number && it.out.get(&lane).is_some_and(|out| out.contains(&at(other).1)));
                        prop_assert!(it.out.get(&lane).is_none_or(Vec::is_empty) || with_it, "a lane is with one worker");
                        it.out.entry(lane).or_default().push(offset);
                    }
                    groups.push((group, epochs));
                },
                Step::Conclude(index, bits) if !groups.is_empty() => {
                    let (group, of) = groups.swap_remove(index.index(groups.len()));
                    let mut ends = Vec::new();
                    for (nth, task) in group.tasks.into_iter().enumerate() {
                        let (number, offset) = at(&task);
                        let it = &mut model[number as usize];
                        let settled = bits >> (nth % 8) & 1 == 1;
                        if of[number as usize] == epochs[number as usize] {
                            if settled { it.unsettled.remove(&offset); }
                            let lane = it.lane_of[&offset];
                            it.out.entry(lane).or_default().retain(|other| *other != offset);
                        }
                        ends.push((task, if settled { End::Settled } else { back(None, nth % 2 == 0) }));
                    }
                    lanes.conclude(ends);
                }
                Step::Rebalance(number) => {
                    let it = &mut model[number as usize];
                    for position in lanes.to_commit(&[partition(number)]) { it.committed = position.offset; }
                    epochs[number as usize] += 1;
                    assign(&mut lanes, number);
                    it.next = it.committed;
                    it.unsettled.clear();
                    it.out.clear();
                    it.paused = false;
                }
                Step::Drain(number) => lanes.drain(&partition(number)),
                Step::Conclude(..) => {}
            }
            for partition in lanes.relieved() { model[partition.number as usize].paused = false; }
            for (number, it) in model.iter().enumerate() {
                for position in lanes.to_commit(&[partition(number as i32)]) {
                    prop_assert!(it.unsettled.first().is_none_or(|first| position.offset <= *first));
                }
            }
        }
    }
}

/// Its first job may be done while the second one rests.
#[test]
fn a_message_that_rests_makes_its_partition_one_of_which_something_may_be_done() {
    let now = Instant::now();
    let mut lanes = lanes(2, BOUNDS);
    push(&mut lanes, 0, 4, 7);
    let rests = task(&mut lanes, now);
    lanes.conclude(vec![(rests, back(Some(now + Duration::from_secs(20)), true))]);
    assert_eq!(lanes.ahead(), [partition(0)]);
}
