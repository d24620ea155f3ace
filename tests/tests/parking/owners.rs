//! Owners that do not know of each other: each has a broker of its own with the same messages, and nothing in common but
//! the database. So it is with one that slept, and wakes up believing that its partitions are its own.

use std::collections::BTreeMap;

use idempotent_jobs::dead_letters::LetterState;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tests::PATIENCE;
use tests::broker::{Broker, Wire};
use tests::database::Kind;
use tests::world::World;

use super::jobs::{Mended, PARKING, Work};
use super::scene::{Scene, bad, good, wire};

const LANES: i64 = 10;
const EACH: i64 = 20;

/// What is sent between two looks.
const PORTION: usize = 20;
/// So far are the handlers mended in the end, a step every few looks.
const LEVELS: i64 = 4;

/// Messages of many lanes; one in ten is bad. Ids rise in their lane.
fn messages(random: &mut StdRng) -> Vec<Wire> {
    let mut next = [0; LANES as usize];
    let mut all = Vec::new();
    while next.iter().sum::<i64>() < LANES * EACH {
        let lane = random.random_range(0..LANES);
        let nth = &mut next[lane as usize];
        if *nth < EACH {
            let until = if random.random_range(0..10) == 0 { random.random_range(1..=LEVELS) } else { 0 };
            let work = Work { id: lane * 100 + *nth, until, note: "dawdle".to_owned() };
            all.push(Wire { partition: (lane % 2) as i32, ..wire(&lane.to_string(), &work) });
            *nth += 1;
        }
    }
    all
}

fn has_committed(broker: &Broker, group: &str) -> bool {
    let ends = broker.ends(PARKING.0, PARKING.1);
    broker.committed(group, PARKING.0, PARKING.1).iter().zip(ends).all(|(at, end)| *at.max(&0) >= end)
}

/// They run side by side through all of it, while messages come and letters are run again and again.
pub fn a_lane_is_done_in_order_by_two_who_both_believe_to_own_it(kind: Kind, form: &'static str, seed: u64) {
    let world = World::on(Broker::embedded(&[PARKING]), kind, PARKING);
    let scene = Scene { world, mended: Mended::default(), form };
    let (other, job) = (Broker::embedded(&[PARKING]), scene.job());
    let all = messages(&mut StdRng::seed_from_u64(seed));
    let mut portions = all.chunks(PORTION);
    let mut put = || {
        let Some(portion) = portions.next() else { return false };
        scene.world.put(portion);
        other.send(PARKING.0, portion);
        true
    };
    put();
    let work = |broker: &Broker| {
        let (servers, jobs, mended) = (broker.servers().to_owned(), [job.clone()], scene.mended.clone());
        scene.world.work_as([], |builder| builder.brokers(servers).jobs(jobs).state(mended))
    };
    let workers = [work(&scene.world.broker), work(&other)];
    let mut looks = 0;
    scene.until("all of it is decided", |scene| {
        looks += 1;
        scene.mended.to(looks / 6);
        scene.world.ask();
        let over = |broker| has_committed(broker, &scene.world.group);
        let decided = || scene.states().iter().all(|state| *state == LetterState::Redriven);
        !put() && over(&scene.world.broker) && over(&other) && decided()
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
    assert!(parked > 5, "{form}, seed {seed}: few waited");
}

/// Its own partition is at a later message of the lane when the other owner finds that one of them dies: what it takes together
/// with that one does not run ahead.
pub fn what_is_taken_with_one_that_died_elsewhere_does_not_run_ahead(kind: Kind, form: &'static str) {
    let world = World::on(Broker::embedded(&[PARKING]), kind, PARKING);
    let scene = Scene { world, mended: Mended::default(), form };
    let other = Broker::embedded(&[PARKING]);
    let work = |broker: &Broker| {
        let (servers, jobs, mended) = (broker.servers().to_owned(), [scene.job()], scene.mended.clone());
        // So that what waits is taken at once.
        scene.world.work_as([], |builder| builder.brokers(servers).jobs(jobs).state(mended).concurrency(1))
    };
    let late = work(&other);
    other.send(PARKING.0, &good("a", [1]));
    scene.until("it knows of no lane that waits", |scene| {
        has_committed(&other, &scene.world.group) && scene.done() == [1]
    });

    scene.world.put(&[&good("a", [1])[..], &[bad("a", 2, 1)]].concat());
    let early = work(&scene.world.broker);
    scene.world.settled(PATIENCE);
    early.stop().expect("a clean stop");
    assert_eq!(scene.lanes().len(), 1, "{form}");

    let slow = wire("b", &Work { id: 50, note: "slow".to_owned(), ..Work::default() });
    other.send(PARKING.0, &[&[slow, bad("a", 2, 1)][..], &good("a", 3..6)].concat());
    scene.until("all of it is settled", |scene| has_committed(&other, &scene.world.group));
    assert_eq!((scene.done(), scene.lanes()[0].waiting), (vec![1, 50], 3), "{form}: nothing runs ahead");
    scene.mended.to(1);
    scene.world.ask();
    scene.rests();
    late.stop().expect("a clean stop");
    assert_eq!(scene.done(), [1, 50, 2, 3, 4, 5], "{form}");
}
