//! What was sent against the effects and dead letters that are there.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use super::Plan;
use super::scene::Log;
use crate::letters::difference;
use crate::world::{Count, World};

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub count: Count,
    /// Bad messages.
    pub bad: usize,
    /// SIGKILLs.
    pub kills: usize,
    /// How often a worker ended by itself.
    pub deaths: usize,
    /// Effects behind a later one of their key.
    pub out_of_order: usize,
    /// What is wrong with the dead letters.
    pub wrong: Vec<String>,
    pub took: Duration,
}

/// The table's head.
pub const HEADING: &str = "| good | bad | SIGKILL | ended by a message | lost | doubled | out of order | letters wrong | took |\n\
                           |---|---|---|---|---|---|---|---|---|";

impl Row {
    /// Compares what is in the world with what was sent.
    pub(super) fn of(world: &World, plan: &Plan, log: &Log) -> Self {
        Self {
            count: world.count(),
            bad: log.values().filter(|(_, _, bad)| bad.is_some()).count(),
            kills: 0,
            deaths: 0,
            out_of_order: out_of_order(plan, world),
            wrong: wrong(world, log),
            took: Duration::ZERO,
        }
    }

    /// Whether nothing is lost, doubled, out of order or wrong.
    pub fn is_good(&self) -> bool {
        (self.count.lost, self.count.doubled, self.out_of_order) == (0, 0, 0) && self.wrong.is_empty()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count: Count { sent, lost, doubled }, bad, kills, deaths, out_of_order, wrong, took } = self;
        let (wrong, took) = (wrong.len(), took.as_secs_f64());
        write!(
            f,
            "| {sent} | {bad} | {kills} | {deaths} | {lost} | {doubled} | {out_of_order} | {wrong} | {took:.1} s |"
        )
    }
}

fn out_of_order(plan: &Plan, world: &World) -> usize {
    let mut last: HashMap<u64, i64> = HashMap::new();
    let mut wrong = 0;
    for effect in world.database.effects() {
        let last = last.entry(plan.key(effect.id)).or_insert(-1);
        wrong += usize::from(effect.id < *last);
        *last = effect.id.max(*last);
    }
    wrong
}

fn wrong(world: &World, log: &Log) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut there = HashSet::new();
    for letter in world.letters() {
        let at = &letter.message.coordinates;
        let place = (at.partition, at.offset);
        let Some((id, wire, bad)) = log.get(&place) else {
            wrong.push(format!("{at}: was not sent"));
            continue;
        };
        let Some(bad) = bad else {
            wrong.push(format!("{at}: message {id} is good, and its letter says {}: {}", letter.reason, letter.error));
            continue;
        };
        if !there.insert(place) {
            wrong.push(format!("{at}: message {id} has two letters"));
        }
        if letter.reason != bad.reason() {
            wrong.push(format!(
                "{at}: message {id} is {bad:?}, and its letter says {}: {}",
                letter.reason, letter.error
            ));
        }
        wrong.extend(difference(&letter, wire).map(|what| format!("{at}: message {id} has another {what}")));
    }
    let missing = log.iter().filter(|(place, (_, _, bad))| bad.is_some() && !there.contains(*place));
    wrong.extend(missing.map(|(place, (id, _, bad))| format!("{place:?}: message {id}, {bad:?}, has no letter")));
    wrong
}
