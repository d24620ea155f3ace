//! The relay against real Kafka and PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use idempotent_jobs::Worker;
use idempotent_jobs::outbox::{Outbox, enqueue_all};
use idempotent_jobs::prelude::*;
use sqlx::{Connection, Executor, PgConnection};
use tests::PATIENCE;
use tests::outbox::{Numbered, Scene, TOPIC, first_copies, rows};
use tests::servers::Outage;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn out_01_a_lower_id_that_commits_later_is_sent_too() {
    let scene = Scene::real();
    let relay = scene.relay();
    // Of one shard, and of different keys: nothing makes one wait for the other.
    let late = open(&scene, &format!("BEGIN; {}", rows(TOPIC.0, 1, 0..1)));
    scene.rows(33, 0..1);
    assert_eq!(scene.arrive(1, SOON)[0].numbered(), Numbered { lane: 33, n: 0 });
    end(late, "COMMIT");
    let (lanes, copies) = first_copies(&scene.arrive(2, SOON));
    assert_eq!((lanes.len(), copies), (2, 2));
    scene.drained(SOON);
    relay.stop();
}

#[test]
fn out_02_nothing_is_marked_before_the_broker_has_it() {
    let scene = Scene::real();
    let relay = scene.relay();
    scene.rows(0, 0..1);
    scene.arrive(1, SOON);
    let outage = Outage::of_kafka();
    (1..11).for_each(|lane| scene.rows(lane, 0..1));
    // The relay hands them over and hears nothing: the outage itself, not a wait for anything.
    scene.events.wait_briefly(Duration::from_secs(5), |seen| seen.has_ended(relay.source));
    assert_eq!(scene.waiting(), 10);
    outage.end();
    scene.drained(PATIENCE);
    let (lanes, _) = first_copies(&scene.found());
    assert_eq!(lanes.len(), 11);
    relay.stop();
}

#[test]
fn out_03_a_relay_that_slept_sends_nothing_more_of_what_others_took() {
    let scene = Scene::real();
    let sleeper = scene.relay();
    let owned = "SELECT count(*) FROM idempotent_jobs.shards WHERE owner IS NOT NULL AND owned_until > now()";
    scene.becomes(owned, 32, SOON);
    // It stops in the middle of a long way.
    for lane in 0..1_000 {
        scene.database.run(&rows(TOPIC.0, lane, 0..10));
    }
    sleeper.signal("STOP");
    scene.rows(2_000, 0..1);
    let others = [scene.relay(), scene.relay()];
    scene.drained(PATIENCE);
    let asleep = scene.found();
    sleeper.signal("CONT");
    sleeper.heard("lost shards to another relay");
    scene.rows(2_001, 0..1);
    scene.drained(SOON);
    let found = scene.found();
    let (lanes, copies) = first_copies(&found);
    assert_eq!(lanes.len(), 1_002);
    assert!((0..1_000).all(|lane| lanes[&lane] == (0..10).collect::<Vec<_>>()), "first copies are in order");
    println!("{copies} copies of 10,002 records, {} of them before it woke", asleep.len());
    // What it had handed over may come, one record of a key at most.
    assert!(found.len() - asleep.len() <= 1_001, "{} copies after it woke", found.len() - asleep.len());
    sleeper.stop();
    others.into_iter().for_each(tests::child::Child::stop);
}

#[test]
fn out_04_an_outage_of_the_broker_uses_up_no_attempts() {
    let scene = Scene::real();
    let mut command = scene.command();
    // Many deliveries time out during the outage.
    command.env("KAFKA_MESSAGE_TIMEOUT_MS", "1000");
    let relay = scene.start(command);
    scene.rows(0, 0..1);
    scene.arrive(1, SOON);
    let outage = Outage::of_kafka();
    (0..20).for_each(|lane| scene.rows(lane, 1..6));
    relay.heard("records do not get through");
    scene.events.wait_briefly(Duration::from_secs(12), |seen| seen.has_ended(relay.source));
    let used = "SELECT count(*) FROM idempotent_jobs.outbox WHERE attempts > 0 OR state <> 'ready'";
    assert_eq!((scene.waiting(), scene.database.number(used)), (100, 0));
    outage.end();
    scene.drained(PATIENCE);
    let (lanes, _) = first_copies(&scene.found());
    assert_eq!(lanes[&0], (0..6).collect::<Vec<_>>());
    assert!((1..20).all(|lane| lanes[&lane] == (1..6).collect::<Vec<_>>()));
    relay.stop();
}

#[test]
fn a_relay_goes_on_behind_a_restart_of_the_database() {
    let scene = Scene::real();
    let relay = scene.relay();
    scene.rows(0, 0..1_000);
    scene.arrive(1, SOON);
    let outage = Outage::of_postgres();
    // The outage itself, not a wait for anything.
    scene.events.wait_briefly(Duration::from_secs(5), |seen| seen.has_ended(relay.source));
    outage.end();
    scene.rows(0, 1_000..1_010);
    scene.drained(PATIENCE);
    let (lanes, copies) = first_copies(&scene.found());
    assert_eq!(lanes[&0], (0..1_010).collect::<Vec<_>>());
    println!("{copies} copies of 1,010 records");
    relay.stop();
}

/// A record is one row that is inserted and deleted: an update for each would leave dead rows faster than a vacuum takes them.
#[test]
fn db_17_a_record_that_gets_through_is_never_updated() {
    let scene = Scene::real();
    let relay = scene.relay();
    for lane in 0..100 {
        scene.rows(lane, 0..20);
    }
    scene.drained(PATIENCE);
    relay.stop();
    let (lanes, copies) = first_copies(&scene.found());
    assert_eq!((lanes.len(), copies), (100, 2_000));
    let of = |what| format!("SELECT {what} FROM pg_stat_all_tables WHERE relid = 'idempotent_jobs.outbox'::regclass");
    scene.becomes(&of("n_tup_del"), 2_000, SOON);
    assert_eq!(scene.database.number(&of("n_tup_upd")), 0, "rows that were updated");
}

#[test]
fn out_05_bad_records_are_set_aside_and_the_others_go_on() {
    let scene = Scene::real();
    // Too large for the producer; behind it a second one of its key. And a topic that is not there.
    scene.database.run(
        "INSERT INTO idempotent_jobs.outbox (topic, key, key_parts, partition_key, payload, shard, ordered, size) \
         VALUES ('relayed', '[1,0]', 'lane,n', '1', convert_to(repeat('x', 3000000), 'UTF8'), 1, true, 3000000)",
    );
    scene.rows(1, 1..2);
    scene.database.run(&rows("no-such-topic", 2, 0..3));
    (3..100).for_each(|lane| scene.rows(lane, 0..1));
    let relay = scene.relay();
    let began = Instant::now();
    assert_eq!(first_copies(&scene.arrive(97, SOON)).0.len(), 97);
    println!("the good ones took {:?}", began.elapsed());
    let failed = "SELECT count(*) FROM idempotent_jobs.outbox WHERE state = 'failed' AND last_error IS NOT NULL";
    scene.becomes(failed, 2, PATIENCE);
    println!("the bad ones are set aside after {:?}", began.elapsed());
    // One too large, one behind it; of the topic one after ten attempts, two behind it.
    assert_eq!(scene.waiting(), 5);
    let attempts =
        "SELECT attempts::bigint FROM idempotent_jobs.outbox WHERE topic = 'no-such-topic' AND state = 'failed'";
    assert_eq!(scene.database.number(attempts), 10);
    scene.database.run("DELETE FROM idempotent_jobs.outbox WHERE key = '[1,0]'");
    assert_eq!(scene.arrive(98, SOON).len(), 98);
    relay.stop();
}

#[test]
fn out_07_after_an_outage_earlier_records_of_a_key_leave_first() {
    let scene = Scene::real();
    let mut command = scene.command();
    command.env("KAFKA_MESSAGE_TIMEOUT_MS", "1000");
    let relay = scene.start(command);
    scene.rows(0, 0..1);
    scene.arrive(1, SOON);
    let outage = Outage::of_kafka();
    scene.rows(0, 1..3);
    relay.heard("records do not get through");
    outage.end();
    scene.rows(0, 3..10);
    scene.drained(PATIENCE);
    assert_eq!(first_copies(&scene.found()).0[&0], (0..10).collect::<Vec<_>>());
    relay.stop();
}

#[test]
fn out_09_a_record_that_was_kept_is_sent_once_more_with_the_same_key() {
    let scene = Scene::real();
    let mut command = scene.command();
    command.env("RELAY_KEEPS_SENT", "3600");
    let relay = scene.start(command);
    scene.rows(0, 0..3);
    scene.arrive(3, SOON);
    scene.drained(SOON);
    scene.becomes("SELECT count(*) FROM idempotent_jobs.sent", 3, SOON);
    tests::wait_for(async {
        let outbox = Outbox::connect(scene.database.url()).await.expect("an operator can connect");
        assert_eq!(outbox.replay(TOPIC.0, "[0,1]").await.expect("it can be replayed"), 1);
    });
    let found = scene.arrive(4, SOON);
    let copies: Vec<_> = found.iter().filter(|record| record.dedup == "[0,1]").collect();
    assert_eq!(copies.len(), 2);
    assert_eq!((&copies[0].payload, &copies[0].headers), (&copies[1].payload, &copies[1].headers));
    relay.stop();
}

#[test]
fn prod_01_a_record_sent_again_after_a_crash_carries_the_same_key() {
    let scene = Scene::real();
    // The row cannot be marked: who waits for its lock is killed between sending and marking.
    let relay = scene.relay();
    let owned = "SELECT count(*) FROM idempotent_jobs.shards WHERE owner IS NOT NULL";
    scene.becomes(owned, 32, SOON);
    // A trigger holds up whoever deletes, so that the mark surely comes too late.
    scene.database.run(
        "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN OLD; END'; \
         CREATE TRIGGER held BEFORE DELETE ON idempotent_jobs.outbox FOR EACH ROW EXECUTE FUNCTION held()",
    );
    let holder = open(&scene, "BEGIN; SELECT pg_advisory_xact_lock(1)");
    scene.rows(7, 0..1);
    scene.arrive(1, SOON);
    relay.kill();
    assert_eq!(scene.waiting(), 1);
    let next = scene.relay();
    scene.arrive(2, SOON);
    end(holder, "ROLLBACK");
    scene.drained(SOON);
    let found = scene.found();
    assert!(found.iter().all(|record| record.dedup == "[7,0]"), "{found:?}");
    assert_eq!(found.len(), 2);
    next.stop();
}

#[test]
fn every_row_arrives_in_order_whatever_is_killed() {
    let rows: i64 = std::env::var("OUTBOX_ROWS").map_or(20_000, |rows| rows.parse().expect("a number"));
    let outage_s: u64 = std::env::var("OUTBOX_OUTAGE").map_or(8, |seconds| seconds.parse().expect("seconds"));
    let scene = Scene::real();
    scene.database.run(
        "CREATE TABLE lanes (lane bigint PRIMARY KEY, n bigint NOT NULL); \
         INSERT INTO lanes SELECT l, 0 FROM generate_series(0, 499) AS l",
    );
    let began = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let killing = {
            let (over, scene) = (Arc::clone(&over), &scene);
            scope.spawn(move || kill_now_and_then(scene, &over))
        };
        let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| write(scene.database.url(), rows / 8))).collect();
        scene.events.wait_briefly(Duration::from_secs(3), |_| false);
        let outage = Outage::of_kafka();
        scene.events.wait_briefly(Duration::from_secs(outage_s), |_| false);
        outage.end();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer ends"));
        println!("all is written after {:?}", began.elapsed());
        scene.drained(Duration::from_secs(120));
        println!("all is sent after {:?}", began.elapsed());
        over.store(true, Ordering::SeqCst);
        let kills = killing.join().expect("the killer ends");
        println!("{kills} relays were killed");
    });
    let found = scene.found();
    let (lanes, copies) = first_copies(&found);
    let expected: BTreeMap<i64, i64> = counts(&scene);
    let sent: i64 = lanes.values().map(|lane| lane.len() as i64).sum();
    println!("{copies} copies of {sent} records");
    assert_eq!((sent, expected.values().sum()), (rows / 8 * 8, rows / 8 * 8), "found in Kafka, and committed");
    for (lane, numbers) in &lanes {
        assert_eq!(*numbers, (1..=expected[lane]).collect::<Vec<_>>(), "lane {lane} is in the order of commit");
    }
    assert_taken_once(&scene, rows / 8 * 8);
}

/// The job that reads the topic: copies have no effect, and nothing is missing.
#[idempotent_job(shared_tx = 100)]
async fn takes(tx: &mut PgTx, job: Numbered) -> JobResult {
    sqlx::query("INSERT INTO taken (lane, n) VALUES ($1, $2)").bind(job.lane).bind(job.n).execute(&mut *tx).await?;
    Ok(())
}

fn assert_taken_once(scene: &Scene, rows: i64) {
    // Nothing in the table would keep a second effect out.
    scene.database.run("CREATE TABLE taken (place bigint GENERATED ALWAYS AS IDENTITY, lane bigint, n bigint)");
    let group = tests::database::fresh("test");
    scene.broker.rewind(&group, TOPIC.0, scene.from());
    let builder = Worker::builder().database_url(scene.database.url()).brokers(scene.broker.servers()).group_id(&group);
    let worker = tests::worker::run(builder.jobs(["takes"]).relay(false), 0, &scene.events);
    let deadline = Instant::now() + Duration::from_secs(300);
    while scene.broker.committed(&group, TOPIC.0, TOPIC.1) != scene.broker.ends(TOPIC.0, TOPIC.1) {
        assert!(Instant::now() < deadline, "not all is read:\n{}", scene.events.seen().describe());
        scene.events.wait_briefly(Duration::from_millis(500), |seen| seen.deserter().is_some());
    }
    worker.stop().expect("a clean stop");
    let distinct = "SELECT count(*) FROM (SELECT DISTINCT lane, n FROM taken) AS t";
    assert_eq!(scene.database.number(distinct), rows, "nothing is missing");
    assert_eq!(scene.database.number("SELECT count(*) FROM taken"), rows, "each effect once");
    let disorder = "SELECT count(*) FROM (SELECT n - lag(n) OVER (PARTITION BY lane ORDER BY place) AS step FROM taken) AS t WHERE step <> 1";
    assert_eq!(scene.database.number(disorder), 0, "in the order of each lane");
}

/// A connection that did this.
fn open(scene: &Scene, sql: &str) -> PgConnection {
    tests::wait_for(async {
        let mut conn = PgConnection::connect(scene.database.url()).await.unwrap();
        conn.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        conn
    })
}

fn end(mut conn: PgConnection, sql: &'static str) {
    tests::wait_for(async {
        conn.execute(sql).await.unwrap();
        conn.close().await.unwrap();
    });
}

fn counts(scene: &Scene) -> BTreeMap<i64, i64> {
    tests::wait_for(async {
        let mut conn = PgConnection::connect(scene.database.url()).await.unwrap();
        let rows: Vec<(i64, i64)> = sqlx::query_as("SELECT lane, n FROM lanes").fetch_all(&mut conn).await.unwrap();
        rows.into_iter().collect()
    })
}

/// Three relays; one of them is killed every two seconds, and another started. How many were killed.
fn kill_now_and_then(scene: &Scene, over: &AtomicBool) -> usize {
    let mut relays: std::collections::VecDeque<_> = (0..3).map(|_| scene.relay()).collect();
    let mut kills = 0;
    while !over.load(Ordering::SeqCst) {
        scene.events.wait_briefly(Duration::from_secs(2), |_| over.load(Ordering::SeqCst));
        relays.pop_front().expect("there are three").kill();
        relays.push_back(scene.relay());
        kills += 1;
    }
    relays.into_iter().for_each(tests::child::Child::stop);
    kills
}

/// Transactions of a few records each; the numbers of a lane are drawn in the order of commit.
fn write(url: &str, rows: i64) {
    tests::wait_for(async {
        let mut conn = PgConnection::connect(url).await.unwrap();
        let mut left = rows;
        while left > 0 {
            let mut tx = conn.begin().await.unwrap();
            let first = i64::from(rand::random::<u16>() % 490);
            let lanes: Vec<i64> = (first..first + left.min(i64::from(rand::random::<u8>() % 10) + 1)).collect();
            let numbered: Vec<(i64, i64)> = sqlx::query_as(
                "WITH held AS (SELECT lane FROM lanes WHERE lane = ANY ($1) ORDER BY lane FOR UPDATE) \
                 UPDATE lanes SET n = n + 1 FROM held WHERE lanes.lane = held.lane RETURNING lanes.lane, n",
            )
            .bind(&lanes)
            .fetch_all(&mut *tx)
            .await
            .unwrap();
            left -= numbered.len() as i64;
            enqueue_all(
                &mut *tx,
                numbered.iter().map(|(lane, n)| Numbered { lane: *lane, n: *n }).collect::<Vec<_>>().iter(),
            )
            .await
            .unwrap();
            // Others overtake it meanwhile.
            tokio::time::sleep(Duration::from_micros(u64::from(rand::random::<u16>() % 6_000))).await;
            tx.commit().await.unwrap();
        }
    });
}
