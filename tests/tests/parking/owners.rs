//! Owners that do not know of each other: each has a broker of its own with the same messages, and nothing in common but
//! the database. So it is with one that slept, and wakes up believing that its partitions are its own.

use std::cell::Cell;
use std::collections::BTreeMap;

use idempotent_jobs::dead_letters::LetterState;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tests::broker::{Broker, Wire};
use tests::database::Kind;
use tests::world::World;

use super::jobs::{Mended, PARKING, Work};
use super::scene::{Scene, wire};

const LANES: i64 = 10;
const EACH: i64 = 20;

/// Messages of many lanes; one in eight is bad. Ids rise in their lane.
fn messages(random: &mut StdRng) -> Vec<Wire> {
    let mut next = [0; LANES as usize];
    let mut all = Vec::new();
    while next.iter().sum::<i64>() < LANES * EACH {
        let lane = random.random_range(0..LANES);
        let nth = &mut next[lane as usize];
        if *nth < EACH {
            let until = i64::from(random.random_range(0..8) == 0);
            let work = Work { id: lane * 100 + *nth, until, note: "dawdle".to_owned() };
            all.push(Wire { partition: (lane % 2) as i32, ..wire(&lane.to_string(), &work) });
            *nth += 1;
        }
    }
    all
}

fn has_committed(broker: &Broker, group: &str, ends: &[i64]) -> bool {
    broker.committed(group, PARKING.0, PARKING.1).iter().zip(ends).all(|(at, end)| at >= end)
}

/// They run side by side through all of it, while letters are run again and again.
pub fn a_lane_is_done_in_order_by_two_who_both_believe_to_own_it(kind: Kind, form: &'static str, seed: u64) {
    let world = World::on(Broker::embedded(&[PARKING]), kind, PARKING);
    let scene = Scene { world, mended: Mended::default(), form };
    let (other, job) = (Broker::embedded(&[PARKING]), scene.job());
    let all = messages(&mut StdRng::seed_from_u64(seed));
    let (sooner, later) = all.split_at(all.len() / 2);
    let put = |wires: &[Wire]| {
        scene.world.put(wires);
        other.send(PARKING.0, wires);
    };
    put(sooner);
    let work = |broker: &Broker| {
        let (servers, jobs, mended) = (broker.servers().to_owned(), [job.clone()], scene.mended.clone());
        scene.world.work_as([], |builder| builder.brokers(servers).jobs(jobs).state(mended))
    };
    let workers = [work(&scene.world.broker), work(&other)];
    scene.until("a lane waits", |scene| !scene.lanes().is_empty());
    // In vain.
    scene.world.ask();
    put(later);
    let ends = scene.world.broker.ends(PARKING.0, PARKING.1);
    let rounds = Cell::new(0);
    scene.until("all of it is decided", |scene| {
        rounds.set(rounds.get() + 1);
        if rounds.get() == 8 {
            scene.mended.to(1);
        }
        scene.world.ask();
        let over = |broker| has_committed(broker, &scene.world.group, &ends);
        over(&scene.world.broker) && over(&other) && scene.states().iter().all(|state| *state == LetterState::Redriven)
    });
    workers.into_iter().for_each(|worker| worker.stop().expect("a clean stop"));

    let mut lanes: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    scene.done().into_iter().for_each(|id| lanes.entry(id / 100).or_default().push(id % 100));
    for (lane, done) in &lanes {
        assert_eq!(*done, (0..EACH).collect::<Vec<_>>(), "{form}, seed {seed}: lane {lane}, each once and in order");
    }
    assert_eq!((lanes.len() as i64, scene.lanes()), (LANES, vec![]), "{form}, seed {seed}");
    let parked = scene.world.letters().iter().filter(|letter| letter.attempts == 0).count();
    println!("{form}, seed {seed}: {} letters, {parked} of them only waited", scene.world.letters().len());
    assert!(parked > 10, "{form}, seed {seed}: few waited");
}
