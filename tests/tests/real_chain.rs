//! A chain of jobs from outbox to outbox, on real Kafka and PostgreSQL, under random kills.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotent_jobs::{JobMessage, outbox};
use serde::Serialize;
use sqlx::{Connection, PgConnection};
use tests::broker::Broker;
use tests::child::{self, Child};
use tests::database::{Database, Kind, fresh};
use tests::events::{Events, Seen};
use tests::{PATIENCE, wait_for};

const TOPICS: [(&str, i32); 3] = [("chain-orders", 6), ("chain-charges", 6), ("chain-receipts", 6)];

/// Of a process that does not know the jobs.
#[derive(Serialize, JobMessage)]
#[message(topic = "chain-orders", key = "id")]
struct Order {
    id: i64,
}

struct Scene {
    broker: Broker,
    database: Database,
    events: Arc<Events>,
    group: String,
    started: u32,
}

impl Scene {
    fn new() -> Self {
        let broker = Broker::real(&TOPICS);
        let (database, group) = (Database::new(Kind::Postgres), fresh("test"));
        wait_for(outbox::migrate(database.url())).expect("the tables can be made");
        database.run("CREATE TABLE calls (purpose TEXT NOT NULL, key TEXT NOT NULL, id BIGINT NOT NULL)");
        for (topic, partitions) in TOPICS {
            broker.begin_at_end(&group, topic, partitions);
        }
        Self { broker, database, events: Arc::default(), group, started: 0 }
    }

    /// Puts orders into the outbox, in a transaction of a process without Kafka.
    fn order(&self, ids: std::ops::Range<i64>) {
        wait_for(async {
            let mut conn = PgConnection::connect(self.database.url()).await.expect("the database answers");
            let mut tx = conn.begin().await.expect("begins");
            outbox::enqueue_all(&mut *tx, ids.map(|id| Order { id }).collect::<Vec<_>>().iter())
                .await
                .expect("is stored");
            tx.commit().await.expect("commits");
            conn.close().await.expect("closes");
        });
    }

    /// Starts the worker of a place in the group; it takes over from the last one there at once.
    fn start(&mut self, place: usize) -> Child {
        self.started += 1;
        let mut command = child::command("chain_child");
        command.env("DATABASE_URL", self.database.url()).env("KAFKA_BROKERS", self.broker.servers());
        command.env("KAFKA_GROUP_ID", &self.group).env("KAFKA_GROUP_INSTANCE_ID", format!("chain-{place}"));
        Child::start(command, self.started, &self.events)
    }

    fn becomes(&self, sql: &str, number: i64) {
        let deadline = Instant::now() + PATIENCE * 2;
        while self.database.number(sql) != number {
            let seen = || self.events.seen().describe();
            assert!(Instant::now() < deadline, "{sql}: {}, not {number}:\n{}", self.database.number(sql), seen());
            let died = self.events.wait_briefly(Duration::from_millis(50), |seen| seen.deserter().is_some());
            assert!(!died, "a worker ended by itself:\n{}", seen());
        }
    }
}

fn random(below: usize) -> usize {
    let below = u64::try_from(below).expect("a small number");
    usize::try_from(RandomState::new().hash_one(()) % below).expect("a small number")
}

fn begun(seen: &Seen) -> usize {
    seen.said.iter().filter(|(_, line)| line.starts_with("begins ")).count()
}

#[test]
fn side_01_a_chain_of_three_jobs_is_exact_through_random_kills() {
    const ORDERS: i64 = 2_000;
    const KILLS: usize = 12;
    let mut scene = Scene::new();
    let mut workers: Vec<Child> = (0..3).map(|place| scene.start(place)).collect();
    let steps = usize::try_from(ORDERS * 3).expect("a small number");
    let mut killed = Vec::new();
    for kill in 0..KILLS {
        let share = |kill: usize| ORDERS * i64::try_from(kill).expect("a small number") / 12;
        scene.order(share(kill)..share(kill + 1));
        // Some once more, which were sent or were not.
        scene.order(share(kill)..share(kill) + 10);
        let after = steps * kill / KILLS + 1 + random(steps / KILLS / 2);
        scene.events.wait("the chain goes on", PATIENCE, |seen| (begun(seen) >= after).then_some(()));
        let place = random(3);
        killed.push((place, after));
        let next = scene.start(place);
        std::mem::replace(&mut workers[place], next).kill();
    }
    scene.becomes("SELECT count(DISTINCT id) FROM effects WHERE job = 'receipt'", ORDERS);
    scene.becomes("SELECT count(*) FROM idempotent_jobs.outbox", 0);
    workers.into_iter().for_each(Child::stop);

    let number = |sql: &str| scene.database.number(sql);
    println!("{} calls to the outside; killed (place, after steps): {killed:?}", number("SELECT count(*) FROM calls"));
    for job in ["order", "charge", "receipt"] {
        let ids = scene.database.ids(job);
        let mut once = ids.clone();
        once.sort_unstable();
        assert_eq!(once, (0..ORDERS).collect::<Vec<_>>(), "effects of {job}, killed at {killed:?}");
    }
    for purpose in ["charge-card", "receipt-mail"] {
        let keys = format!("SELECT count(DISTINCT key) FROM calls WHERE purpose = '{purpose}'");
        let pairs = format!("SELECT count(DISTINCT (key, id)) FROM calls WHERE purpose = '{purpose}'");
        assert_eq!((number(&keys), number(&pairs)), (ORDERS, ORDERS), "one key an order, killed at {killed:?}");
    }
}
