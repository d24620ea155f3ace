//! The two workers of one group, and what befalls them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::report::Row;
use super::stream::Stream;
use super::{Bad, POISONED, Plan};
use crate::broker::Wire;
use crate::child::Child;
use crate::order::draw;
use crate::world::World;
use crate::{PATIENCE, wait_for};

/// What was sent, by its partition and offset.
pub(super) type Log = HashMap<(i32, i64), (i64, Wire, Option<Bad>)>;

struct Scene<'a> {
    world: World,
    plan: &'a Plan,
    workers: Vec<Child>,
    log: Log,
    kills: usize,
    deaths: usize,
}

/// Between two looks at what is done.
const LOOK: Duration = Duration::from_millis(250);
/// Records put at once.
const PUT: i64 = 1_000;
/// Without progress for so long it stands still.
const STILL: Duration = PATIENCE;

/// Plays the plan on real Kafka and PostgreSQL.
///
/// # Panics
/// When nothing is done for a minute.
pub fn play(plan: &Plan) -> Row {
    let began = Instant::now();
    let mut scene =
        Scene { world: World::real(POISONED), plan, workers: Vec::new(), log: Log::new(), kills: 0, deaths: 0 };
    // What is looked at below is there before the first worker is.
    wait_for(idempotent_jobs::outbox::migrate(scene.world.database.url())).expect("the tables can be made");
    scene.workers = (0..2).map(|number| scene.worker(number)).collect();
    let mut stream = Stream::new(plan);
    let portion = plan.messages / i64::try_from(plan.kills + 1).expect("few kills");
    for nth in 0..plan.kills {
        let before = scene.done();
        scene.send(&mut stream, portion);
        let percent = 5 + draw(plan.seed, ("moment", nth)) % 75;
        let part = portion * i64::try_from(percent).expect("at most a hundred") / 100;
        scene.until(|scene| scene.done() >= before + part);
        scene.kill(nth);
    }
    scene.send(&mut stream, plan.messages);
    scene.until(|scene| scene.world.is_settled());
    scene.workers.drain(..).for_each(Child::stop);
    let row = Row::of(&scene.world, plan, &scene.log);
    Row { kills: scene.kills, deaths: scene.deaths, took: began.elapsed(), ..row }
}

impl Scene<'_> {
    /// Its name in the group gives its successor its partitions at once.
    fn worker(&self, number: usize) -> Child {
        let name = format!("worker-{number}");
        let mut command = self.world.command(&[("group.instance.id", &name)]);
        command.env("CHILD_CONCURRENCY", self.plan.concurrency.to_string()).env("RUST_LOG", "error");
        // Handlers panic by intent, and nobody reads where.
        command.env("RUST_BACKTRACE", "0");
        let child = self.world.start(command);
        // Some messages end their process: that is what is looked at here.
        self.world.events.dismiss(child.source);
        child
    }

    fn send(&mut self, stream: &mut Stream<'_>, messages: i64) {
        let mut left = messages;
        while left > 0 {
            let sent = stream.take(left.min(PUT));
            if sent.is_empty() {
                return;
            }
            left -= i64::try_from(sent.len()).expect("few");
            let records: Vec<Wire> = sent.iter().map(|sent| sent.wire.clone()).collect();
            let offsets = self.world.put(&records);
            let good: Vec<i64> = sent.iter().filter(|sent| sent.bad.is_none()).map(|sent| sent.id).collect();
            self.world.sent_too(&good);
            for (sent, offset) in sent.into_iter().zip(offsets) {
                self.log.insert((sent.wire.partition, offset), (sent.id, sent.wire, sent.bad));
            }
        }
    }

    fn done(&self) -> i64 {
        self.world.database.number("SELECT count(*) FROM effects")
    }

    /// Whoever ended is started again meanwhile.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let (mut last, mut at) = (self.progress(), Instant::now());
        while !holds(self) {
            self.world.events.wait_briefly(LOOK, |_| false);
            self.replace_the_dead();
            let progress = self.progress();
            if progress != last {
                (last, at) = (progress, Instant::now());
            }
            assert!(at.elapsed() < STILL, "nothing is done any more:\n{}", self.world.events.seen().describe());
        }
    }

    fn progress(&self) -> (i64, i64, usize) {
        let letters = self.world.database.number("SELECT count(*) FROM idempotent_jobs.dead_letters");
        (self.done(), letters, self.deaths)
    }

    fn replace_the_dead(&mut self) {
        for number in 0..self.workers.len() {
            if self.world.events.seen().has_ended(self.workers[number].source) {
                self.workers[number] = self.worker(number);
                self.deaths += 1;
            }
        }
    }

    fn kill(&mut self, nth: usize) {
        let number = (draw(self.plan.seed, ("struck", nth)) % 2) as usize;
        let successor = {
            let struck = self.workers.remove(number);
            struck.kill();
            self.kills += 1;
            self.worker(number)
        };
        self.workers.insert(number, successor);
    }
}
