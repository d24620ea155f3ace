//! Whole workers, on Kafka. The clock is passed in.

use std::time::{Duration, Instant, SystemTime};

use idempotent_jobs::__private::Point;
use idempotent_jobs::__private::kafka::Properties;
use idempotent_jobs::__private::retention::{Cleaner, Look, Swept, walk};
use idempotent_jobs::__private::store::{Bound, Purge, open_retention};
use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, Retention, SqliteTx, WorkerBuilder};
use serde::Deserialize;
use tests::broker::Broker;
use tests::child::Child;
use tests::database::{Kind, effect_pg, effect_sqlite};
use tests::worker::{Running, words};
use tests::world::{CRASH, Topic, World};
use tests::{PATIENCE, wait_for};

use super::{HOUR, ago, table, zeros};

/// One partition, whose messages live for less than an hour.
pub const PURGE: Topic = ("purge", 1);
const SHORT: &[(&str, &str)] = &[("retention.ms", "1800000"), ("segment.ms", "1200000")];

#[derive(Debug, Deserialize)]
pub struct Order {
    pub id: i64,
}

macro_rules! job {
    ($name:ident, $topic:literal, $tx:ident, $effect:ident) => {
        #[idempotent_job(topic = $topic, key = "id")]
        async fn $name(tx: &mut $tx, order: Order, meta: Meta) -> JobResult {
            Ok($effect(tx, stringify!($name), order.id, &meta).await?)
        }
    };
}

job!(purged_sqlite, "crash", SqliteTx, effect_sqlite);
job!(purge_sqlite, "purge", SqliteTx, effect_sqlite);
job!(purge_postgres, "purge", PgTx, effect_pg);

/// On the real Kafka, with any database.
fn world(kind: Kind, topic: Topic) -> World {
    World::on(Broker::real(&[topic]), kind, topic)
}

fn short_lived(kind: Kind) -> World {
    let world = world(kind, PURGE);
    world.broker.configure(PURGE.0, SHORT);
    world
}

fn job(world: &World) -> String {
    format!("purge_{}", world.database.kind)
}

fn work(world: &World, more: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Running {
    world.work_as([], |builder| more(builder.jobs([job(world)])))
}

/// Does all messages that were sent, and stops.
fn done(world: &World) {
    let worker = work(world, |builder| builder);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
}

fn properties(world: &World) -> Properties {
    Properties::new(world.broker.servers()).group(&world.group)
}

fn cleaner(world: &World, retention: Retention) -> Cleaner {
    let topics = [world.topic.0.to_owned()];
    wait_for(Cleaner::open(world.database.url(), &properties(world), &topics, retention)).expect("the database answers")
}

/// A round at an instant, whenever the last sweep was.
fn look(cleaner: &mut Cleaner, now: SystemTime) -> Result<Look, String> {
    wait_for(cleaner.look(now, Duration::ZERO))
}

/// Rounds until one sweeps: how many keys went.
fn purged(cleaner: &mut Cleaner, now: SystemTime) -> u64 {
    match look(cleaner, now).expect("brokers and database answer") {
        Look::Swept(Swept { purged, .. }) => purged.values().sum(),
        other => panic!("no sweep: {other:?}"),
    }
}

fn keys(world: &World) -> i64 {
    world.database.number(&format!("SELECT count(*) FROM {}", table(&world.database, "processed")))
}

/// # Panics
/// At the deadline.
fn until(world: &World, what: &str, is_so: impl Fn() -> bool) {
    // A cleaner that is to wait looks again after a minute.
    let deadline = Instant::now() + PATIENCE * 3;
    while !world.events.wait_briefly(Duration::from_millis(50), |_| is_so()) {
        assert!(Instant::now() < deadline, "{what} does not come:\n{}", world.events.seen().describe());
    }
}

fn age_keys(world: &World, seconds: u64) {
    world.database.run(&format!(
        "UPDATE {} SET processed_at = {}",
        table(&world.database, "processed"),
        ago(&world.database, seconds)
    ));
}

/// DED-04 as it happened: retention 1 h; 100 handled, the offsets of the last 10 not committed; stopped for 2 h; the
/// cleaner fires first, then they come again.
pub fn after_a_long_stop_the_cleaner_fires_first_and_nothing_runs_again(kind: Kind) {
    let retention = Retention::window(HOUR);
    for alone in [false, true] {
        let world = short_lived(kind);
        world.send(0..100);
        done(&world);
        assert_eq!(world.database.ids(&job(&world)).len(), 100);
        let end = world.broker.ends(PURGE.0, 1)[0];
        world.broker.rewind(&world.group, PURGE.0, &[end - 10]);
        let later = SystemTime::now() + 2 * HOUR;

        let look = look(&mut cleaner(&world, retention), later).expect("brokers and database answer");
        let Look::Behind(what) = look else { panic!("{look:?}") };
        assert!(what.contains(&format!("committed {}, and is to come to {end}", end - 10)), "{what}");
        assert_eq!(keys(&world), 100);
        if alone {
            // By age and committed offset alone the same ten stay.
            let bound = Bound { topic: PURGE.0.to_owned(), partition: 0, below: end - 10, before: later - HOUR };
            let purge = Purge { group: world.group.clone(), bounds: vec![bound] };
            let store = wait_for(open_retention(world.database.url())).expect("the database answers");
            wait_for(walk(&*store, &purge, Duration::ZERO)).expect("it can be purged").expect("nobody else does");
            assert_eq!(keys(&world), 10);
        }

        let worker = work(&world, |builder| builder.retention(retention).retention_ahead(2 * HOUR));
        world.events.wait_count(worker.source, Point::Skipped, 10);
        if alone {
            // It rests after the sweep by hand.
            world.database.run(&format!("DELETE FROM {}", table(&world.database, "sweeps")));
        }
        until(&world, "the purge behind the redelivery", || keys(&world) == 0);
        worker.stop().expect("a clean stop");
        world.assert_once();
        assert_eq!(world.database.ids(&job(&world)).len(), 100);
    }
}

/// What is younger stays known right behind a purge; what is older than the window is promised to nobody.
pub fn behind_a_purge_of_older_keys_the_younger_are_still_duplicates(kind: Kind) {
    let world = short_lived(kind);
    world.send(0..20);
    done(&world);
    age_keys(&world, 10_800);
    world.send(20..40);
    done(&world);
    let mut cleaner = cleaner(&world, Retention::window(HOUR));
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 20);
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 0);
    world.send(20..40);
    let worker = work(&world, |builder| builder);
    world.events.wait_count(worker.source, Point::Skipped, 20);
    world.settled(PATIENCE);
    world.assert_once();
    world.send(0..1);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.count().doubled, 1, "sent again behind the window");
}

/// Whatever may be sent, sent again or run again later holds the clock of its topic.
pub fn what_may_be_sent_or_run_again_keeps_the_keys_of_its_time(kind: Kind) {
    let world = short_lived(kind);
    world.send(0..5);
    done(&world);
    age_keys(&world, 10_800);
    let (outbox, letters) = (table(&world.database, "outbox"), table(&world.database, "dead_letters"));
    let two_hours = ago(&world.database, 7_200);
    let (yes, names, values) = match kind {
        Kind::Sqlite => ("1", "headers", "'[]'"),
        Kind::Postgres => ("true", "header_names, header_values", "'{}', '{}'"),
    };
    let mut cleaner = cleaner(&world, Retention::window(HOUR));
    world.database.run(&format!(
        "INSERT INTO {outbox} (topic, key, key_parts, shard, ordered, size, state, enqueued_at) \
         VALUES ('purge', '[4]', 'id', 0, {yes}, 1, 'failed', {two_hours})"
    ));
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 0, "a record is unsent");
    world.database.run(&format!("DELETE FROM {outbox}"));
    world.database.run(&format!(
        "INSERT INTO {letters} (\"group\", topic, \"partition\", \"offset\", digest, {names}, reason, error, attempts, died_at) \
         VALUES ('{}', 'purge', 0, 1, {}, {values}, 'decode', 'x', 1, {})",
        world.group,
        zeros(&world.database),
        ago(&world.database, 3_600),
    ));
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 0, "nobody knows its key");
    world.database.run(&format!("UPDATE {letters} SET state = 'skipped'"));
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 5);
}

/// An idle partition whose last record is the mark of a transaction, which no committed offset comes to.
pub fn marks_of_transactions_hold_up_no_purge(kind: Kind) {
    let world = short_lived(kind);
    world.send(0..5);
    done(&world);
    let mut cleaner = cleaner(&world, Retention::window(HOUR));
    world.broker.send_in_transaction(PURGE.0, br#"{"id":5}"#, || {
        let look = look(&mut cleaner, SystemTime::now());
        assert!(matches!(look, Ok(Look::Behind(_))), "a message may come of an open one: {look:?}");
    });
    let worker = work(&world, |builder| builder);
    until(&world, "the message of the transaction", || keys(&world) == 6);
    worker.stop().expect("a clean stop");
    age_keys(&world, 10_800);
    let (end, committed) = (world.broker.ends(PURGE.0, 1)[0], world.broker.committed(&world.group, PURGE.0, 1)[0]);
    assert!(committed < end, "{committed} of {end}");
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 6);
    // A message where a mark was is no mark.
    world.send(6..7);
    assert!(matches!(look(&mut cleaner, SystemTime::now()), Ok(Look::Behind(_))));
}

/// Every window is refused that is shorter than messages can live, with the numbers; what never ends is refused always.
pub fn windows_shorter_than_messages_live_are_refused(kind: Kind) {
    let world = short_lived(kind);
    let refused = |retention: Retention, expected: &[&str]| {
        let error = work(&world, |builder| builder.retention(retention)).fails();
        words(&error, &["did not start", "topic `purge`"]);
        words(&error, expected);
    };
    refused(
        Retention::window(Duration::from_millis(2_999_999)),
        &["2999999 ms", "3000000 ms (50 min)", "retention.ms 1800000 ms (30 min)", "segment.ms 1200000 ms (20 min)"],
    );
    refused(
        Retention::window(HOUR).resend_horizon(Duration::from_millis(600_001)),
        &["3600001 ms", "resend horizon 600001 ms"],
    );
    let ages = Retention::window(Duration::from_secs(1 << 40));
    world.broker.configure(PURGE.0, &[("cleanup.policy", "compact,delete")]);
    refused(ages, &["cleanup.policy=compact,delete"]);
    world.broker.configure(PURGE.0, &[("retention.ms", "-1")]);
    refused(ages, &["retention.ms=-1", "Retention::forever()"]);
    // As long as nothing is purged, everything is taken.
    world.send(0..1);
    done(&world);
    world.broker.configure(PURGE.0, SHORT);
    let worker = work(&world, |builder| builder.retention(Retention::window(Duration::from_millis(3_000_000))));
    world.send(1..2);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
}

/// What was right at the start may be wrong by the time of a sweep.
pub fn nothing_is_purged_while_the_topic_or_the_brokers_say_no(kind: Kind) {
    let world = short_lived(kind);
    world.send(0..5);
    done(&world);
    age_keys(&world, 10_800);
    let mut cleaner = cleaner(&world, Retention::window(HOUR));
    world.broker.configure(PURGE.0, &[("cleanup.policy", "compact")]);
    let why = look(&mut cleaner, SystemTime::now()).expect_err("it is compacted now");
    assert!(why.contains("cleanup.policy=compact"), "{why}");
    world.broker.configure(PURGE.0, SHORT);

    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let nobody = Properties::new(socket.local_addr().expect("it has a number").to_string()).group(&world.group);
    drop(socket);
    let topics = [PURGE.0.to_owned()];
    let away = Cleaner::open(world.database.url(), &nobody, &topics, Retention::window(HOUR));
    let mut away = wait_for(away).expect("the database answers");
    look(&mut away, SystemTime::now()).expect_err("no brokers answer");

    // A group that committed nothing has read nothing.
    let stranger = Properties::new(world.broker.servers()).group("nobody-of-this-name");
    let stranger = Cleaner::open(world.database.url(), &stranger, &topics, Retention::window(HOUR));
    let mut stranger = wait_for(stranger).expect("the database answers");
    assert!(matches!(look(&mut stranger, SystemTime::now()), Ok(Look::Behind(_))));
    assert_eq!(keys(&world), 5);
    assert_eq!(purged(&mut cleaner, SystemTime::now()), 5);
}

/// Two workers with the purge, killed again and again while it goes through many keys and messages are done.
pub fn purges_of_many_keys_survive_kills_and_take_no_young_one(kind: Kind, many: i64) {
    let world = world(kind, CRASH);
    world.send(0..1);
    child(&world, "first").stop_when_settled(&world);
    let all = table(&world.database, "processed");
    let (numbers, key) = match kind {
        Kind::Sqlite => (
            format!(
                "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {many}) SELECT n FROM s)"
            ),
            "'[' || -n || ']'",
        ),
        Kind::Postgres => (format!("(SELECT generate_series(1, {many}) AS n)"), "'[' || -n || ']'"),
    };
    world.database.run(&format!(
        "INSERT INTO {all} (job, key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\", processed_at) \
         SELECT 'crash_{kind}', {key}, {}, 'json-1', '{}', 'crash', n % 2, -n, {} FROM {numbers} AS s",
        zeros(&world.database),
        world.group,
        ago(&world.database, 20 * 86_400),
    ));
    let old = || world.database.number(&format!("SELECT count(*) FROM {all} WHERE \"offset\" < 0"));
    assert_eq!(old(), many);

    let mut sent = 1;
    let mut left = many;
    for round in 0..4 {
        let pair = [child(&world, "one"), child(&world, "two")];
        world.send(sent..sent + 100);
        sent += 100;
        until(&world, "a part of the purge", || old() < left);
        if round < 3 {
            left = old();
            pair.into_iter().for_each(Child::kill);
        } else {
            until(&world, "the end of the purge", || old() == 0);
            world.settled(PATIENCE);
            pair.into_iter().for_each(Child::stop);
        }
    }
    world.assert_once();
    assert_eq!(keys(&world), sent, "each young key is there");
}

/// A child of this world with a window of 15 days, by a name of its own.
fn child(world: &World, name: &str) -> Child {
    let mut command = world.command(&[("group.instance.id", name)]);
    command.env("CHILD_RETENTION_S", (15 * 86_400).to_string());
    world.start(command)
}

trait Settling {
    fn stop_when_settled(self, world: &World);
}

impl Settling for Child {
    fn stop_when_settled(self, world: &World) {
        world.settled(PATIENCE);
        self.stop();
    }
}
