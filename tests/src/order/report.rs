//! What was sent against the effects that are there.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use idempotent_jobs::__private::Point;

use super::{Plan, Way};
use crate::database::Effect;
use crate::world::{Count, World};

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub way: Way,
    pub keys: u64,
    pub count: Count,
    /// SIGKILLs and SIGTERMs.
    pub kills: usize,
    pub terms: usize,
    /// How often a third member joined, worked, and left.
    pub joins: usize,
    /// Attempts beyond the first of each message.
    pub retries: usize,
    /// Effects whose message lies before another of its key that had its effect earlier.
    pub out_of_order: usize,
    pub took: Duration,
}

/// The table's head.
pub const HEADING: &str = "| way | messages | keys | SIGKILL | SIGTERM | joins | retries | lost | doubled | out of order | took |\n\
                           |---|---|---|---|---|---|---|---|---|---|---|";

impl Row {
    /// Compares what is in the world with the plan.
    pub(super) fn of(world: &World, plan: &Plan, way: Way) -> Self {
        let count = world.count();
        let seen = world.events.seen();
        Self {
            way,
            keys: plan.keys,
            count,
            kills: 0,
            terms: 0,
            joins: 0,
            retries: seen.total(Point::Claimed).saturating_sub(count.sent),
            out_of_order: out_of_order(plan, &world.database.effects()),
            took: Duration::ZERO,
        }
    }

    /// Whether nothing is lost, doubled or out of order.
    pub fn is_good(&self) -> bool {
        (self.count.lost, self.count.doubled, self.out_of_order) == (0, 0, 0)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, keys, count: Count { sent, lost, doubled }, kills, terms, joins, retries, out_of_order, took } =
            self;
        write!(
            f,
            "| {way} | {sent} | {keys} | {kills} | {terms} | {joins} | {retries} | {lost} | {doubled} | {out_of_order} | {:.1} s |",
            took.as_secs_f64()
        )
    }
}

/// `effects` come in the order of the numbers that they drew.
fn out_of_order(plan: &Plan, effects: &[Effect]) -> usize {
    let mut last: HashMap<u64, i64> = HashMap::new();
    let mut wrong = 0;
    for effect in effects {
        let (_, offset) = effect.place.rsplit_once('@').expect("a place names its offset");
        let offset: i64 = offset.parse().expect("an offset is a number");
        let last = last.entry(plan.key(effect.id)).or_insert(-1);
        if offset < *last {
            wrong += 1;
            println!("key {}: offset {offset} ({}) came after {last}", plan.key(effect.id), effect.place);
        }
        *last = offset.max(*last);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_behind_a_later_message_of_its_key_is_out_of_order() {
        let plan = Plan { messages: 3, keys: 1, concurrency: 1, blows: 0, visits: 0, seed: 1 };
        let effect = |id, offset| Effect { job: "job".to_owned(), id, place: format!("topic/0@{offset}") };
        assert_eq!(out_of_order(&plan, &[effect(0, 9), effect(1, 10), effect(2, 11)]), 0);
        assert_eq!(out_of_order(&plan, &[effect(1, 10), effect(0, 9), effect(2, 11)]), 1);
    }
}
