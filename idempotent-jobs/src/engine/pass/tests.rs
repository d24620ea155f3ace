use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::engine::lanes::{Bounds, Lanes, Next, Place};
use crate::engine::settle::{Standing, Verdict};
use crate::kafka::Partition;
use crate::message::{Coordinates, Headers, Message};

/// A group of messages of these lanes, as a worker gets it.
fn group(lanes: &[u64], now: Instant) -> Vec<Task<Progress>> {
    let mut all: Lanes<Progress> = Lanes::new(Bounds { memory: usize::MAX, span: usize::MAX });
    all.assign(&Partition { topic: "orders".into(), number: 0 });
    for (offset, lane) in (0..).zip(lanes) {
        let coordinates = Coordinates { topic: "orders".into(), partition: 0, offset };
        let message = Message { coordinates, key: None, payload: None, headers: Headers::default(), timestamp: None };
        all.push(message, Place { lane: *lane, class: 0 });
    }
    match all.take(now, 1, |_| lanes.len()) {
        Next::Group(group) => group.tasks,
        other => panic!("messages wait: {other:?}"),
    }
}

proptest! {
    /// Whatever a look or an earlier pass settled, and whatever fails: a job is given no message
    /// while an earlier one of its lane is neither settled nor given with it.
    #[test]
    fn ret_01_no_job_is_given_a_message_before_an_earlier_one_of_its_lane(
        lanes in prop::collection::vec(0..3u64, 1..14),
        settled_before in any::<u16>(),
        fails in any::<u16>(),
        alone in any::<u16>(),
        limit in 1..6usize,
    ) {
        let now = Instant::now();
        let mut tasks = group(&lanes, now);
        let bit = |bits: u16, task: &Task<Progress>| bits >> task.message.coordinates.offset & 1 == 1;
        for task in &mut tasks {
            task.progress.open(&[0]);
            if bit(settled_before, task) { task.progress.enter(0, Verdict::Settled, now); }
        }
        let (mut from, mut last) = (0, HashMap::new());
        loop {
            let chunk = choose(0, limit, &tasks, &mut from, |task| task.progress.is_due(0, now), |task| bit(alone, task));
            if chunk.is_empty() && from == tasks.len() { break }
            prop_assert!(chunk.len() <= limit);
            prop_assert!(chunk.len() <= 1 || !chunk.iter().any(|at| bit(alone, &tasks[*at])));
            for at in &chunk {
                let open = (0..*at).filter(|before| tasks[*before].is_beside(&tasks[*at]) && tasks[*before].progress.is_open(0));
                prop_assert!(open.into_iter().all(|before| chunk.contains(&before)));
                let offset = tasks[*at].message.coordinates.offset;
                let lane = lanes[offset as usize];
                prop_assert!(last.insert(lane, offset).is_none_or(|last| last < offset));
            }
            for at in chunk {
                let verdict = if bit(fails, &tasks[at]) {
                    Verdict::Again(Standing { failures: 1, stumbles: 0 }, Duration::from_secs(1))
                } else {
                    Verdict::Settled
                };
                tasks[at].progress.enter(0, verdict, now);
            }
        }
    }
}
