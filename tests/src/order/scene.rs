//! The members of one way's group, and what befalls them.

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use serde_json::json;

use super::{PARTITIONS, Plan, Row, Way, draw};
use crate::PATIENCE;
use crate::broker::Wire;
use crate::child::Child;
use crate::events::Seen;
use crate::world::World;

/// What befalls the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// One of the two members is struck and started again.
    Blow,
    /// A third member joins.
    Join,
    /// It leaves.
    Leave,
}

struct Scene<'a> {
    world: World,
    plan: &'a Plan,
    way: Way,
    members: Vec<Child>,
    guest: Option<Child>,
    sent: i64,
    kills: usize,
    terms: usize,
    joins: usize,
}

/// Between two looks at how far the work is, when the programs tell nothing.
const LOOK: Duration = Duration::from_millis(500);
/// Between two portions for a member that has yet to join.
const DRIP: Duration = Duration::from_millis(50);
/// Records put at once.
const PUT: usize = 2_000;

/// Plays the plan on real Kafka and PostgreSQL.
///
/// # Panics
/// When a program ends by itself, or a message does not settle.
pub fn play(plan: &Plan, way: Way) -> Row {
    let began = Instant::now();
    let mut scene = Scene {
        world: World::real(way.topic()),
        plan,
        way,
        members: Vec::new(),
        guest: None,
        sent: 0,
        kills: 0,
        terms: 0,
        joins: 0,
    };
    scene.members = (0..2).map(|number| scene.member(number)).collect();
    let turns = turns(plan);
    let portion = plan.messages / i64::try_from(turns.len() + 1).expect("few turns");
    for (number, turn) in turns.into_iter().enumerate() {
        let before = scene.done(&scene.world.events.seen());
        scene.send(portion);
        scene.wait_for(before, portion, number);
        scene.take(turn, number, portion);
    }
    scene.send(plan.messages - scene.sent);
    scene.end(began)
}

/// Blows fall between visits and during them.
fn turns(plan: &Plan) -> Vec<Turn> {
    let all = plan.blows + 2 * plan.visits;
    let (mut blows, mut visits, mut inside) = (plan.blows, plan.visits, false);
    let mut turns = Vec::with_capacity(all);
    while turns.len() < all {
        let left = (blows + 2 * visits + usize::from(inside)) as u64;
        turns.push(if draw(plan.seed, ("turn", turns.len())) % left < blows as u64 {
            blows -= 1;
            Turn::Blow
        } else if inside {
            inside = false;
            Turn::Leave
        } else {
            inside = true;
            visits -= 1;
            Turn::Join
        });
    }
    turns
}

impl Scene<'_> {
    /// The first member has a name in the group and its partitions wait for it; the others' go to
    /// whoever is there.
    fn member(&self, number: usize) -> Child {
        let named: &[_] = if number == 0 { &[("group.instance.id", "the-first")] } else { &[] };
        let mut command = self.world.command(named);
        command.env("CHILD_CONCURRENCY", self.plan.concurrency.to_string()).env("RUST_LOG", "error");
        // Handlers panic by intent, and nobody reads where.
        command.env("RUST_BACKTRACE", "0");
        self.world.start(command)
    }

    /// Sends so many of the next messages, each with its key and to its key's partition.
    fn send(&mut self, messages: i64) {
        let record = |id: i64| {
            let key = self.plan.key(id);
            Wire {
                partition: i32::try_from(key % PARTITIONS.unsigned_abs() as u64).expect("less than the partitions"),
                key: Some(key.to_string().into_bytes()),
                payload: Some(json!({ "id": id, "seed": self.plan.seed }).to_string().into_bytes()),
                ..Wire::default()
            }
        };
        let ids: Vec<i64> = (self.sent..self.sent + messages.max(0)).collect();
        for ids in ids.chunks(PUT) {
            let records: Vec<Wire> = ids.iter().copied().map(record).collect();
            self.world.put(&records);
            self.world.sent_too(ids);
        }
        self.sent += messages.max(0);
    }

    /// How many messages are done or were skipped, as far as the programs told.
    fn done(&self, seen: &Seen) -> usize {
        seen.total(Point::Committed) + seen.total(Point::Skipped)
    }

    /// Waits until a drawn part of the last portion is done: the moment of a turn.
    fn wait_for(&self, before: usize, portion: i64, number: usize) {
        let percent = 5 + draw(self.plan.seed, ("moment", number)) % 75;
        let goal = before + usize::try_from(portion).expect("a portion is not negative") * percent as usize / 100;
        let deadline = Instant::now() + PATIENCE * 2;
        // What a program does not tell because it is killed leaves the told number behind.
        let rest = || self.world.database.number("SELECT count(*) FROM effects") + portion / 5 >= self.sent;
        while !self.world.events.wait_briefly(LOOK, |seen| self.done(seen) >= goal) && !rest() {
            let seen = self.world.events.seen();
            assert!(seen.deserter().is_none() && Instant::now() < deadline, "work stands still:\n{}", seen.describe());
        }
    }

    fn take(&mut self, turn: Turn, number: usize, portion: i64) {
        let drawn = draw(self.plan.seed, ("blow", number));
        match turn {
            Turn::Blow => {
                let struck = (drawn % 2) as usize;
                let child = self.members.remove(struck);
                self.strike(child, drawn);
                self.members.insert(struck, self.member(struck));
            }
            Turn::Join => {
                let guest = self.member(2);
                let works = |seen: &Seen| seen.count(guest.source, Point::Claimed) > 0;
                let deadline = Instant::now() + PATIENCE;
                while !self.world.events.wait_briefly(DRIP, works) {
                    assert!(
                        Instant::now() < deadline,
                        "the third member got nothing to do:\n{}",
                        self.world.events.seen().describe()
                    );
                    self.send((portion / 100).max(i64::from(PARTITIONS)));
                }
                self.guest = Some(guest);
                self.joins += 1;
            }
            Turn::Leave => {
                let guest = self.guest.take().expect("it joined before");
                self.strike(guest, drawn);
            }
        }
    }

    fn strike(&mut self, child: Child, drawn: u64) {
        if (drawn / 2).is_multiple_of(2) {
            child.kill();
            self.kills += 1;
        } else {
            child.stop();
            self.terms += 1;
        }
    }

    fn end(mut self, began: Instant) -> Row {
        self.world.settled(PATIENCE * 10);
        self.members.drain(..).for_each(Child::stop);
        let row = Row::of(&self.world, self.plan, self.way);
        Row { kills: self.kills, terms: self.terms, joins: self.joins, took: began.elapsed(), ..row }
    }
}
