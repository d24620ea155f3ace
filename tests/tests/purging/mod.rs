//! What a purge may take and what it leaves, whatever the database.

#![allow(dead_code, reason = "each test target uses the part that its servers allow")]

pub mod store;
pub mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use idempotent_jobs::__private::retention::{Swept, walk};
use idempotent_jobs::__private::store::{Bound, Purge, RetentionStore, open_retention};
use tests::database::{Database, Kind};
use tests::wait_for;

pub const HOUR: Duration = Duration::from_secs(3_600);
pub const GROUP: &str = "billing";

/// A database of its own for one test, and a cleaner's connection.
pub struct Bed {
    pub database: Database,
    pub store: Arc<dyn RetentionStore>,
}

/// A claim as a test needs it.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub job: &'a str,
    pub key: &'a str,
    pub state: &'a str,
    pub group: &'a str,
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    /// Seconds since it was processed.
    pub age: u64,
}

/// One that may go: of the group, below its offset, two hours old.
pub const fn row(key: &str) -> Row<'_> {
    Row { job: "charge", key, state: "done", group: GROUP, topic: "orders", partition: 0, offset: 5, age: 7_200 }
}

/// SQL for a table of ours.
pub fn table(database: &Database, name: &str) -> String {
    match database.kind {
        Kind::Sqlite => format!("idempotent_jobs_{name}"),
        Kind::Postgres => format!("idempotent_jobs.{name}"),
    }
}

/// SQL for an instant so many seconds ago.
pub fn ago(database: &Database, seconds: u64) -> String {
    match database.kind {
        Kind::Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{seconds} seconds')"),
        Kind::Postgres => format!("now() - interval '{seconds} seconds'"),
    }
}

/// SQL for a digest of zeros.
pub fn zeros(database: &Database) -> &'static str {
    match database.kind {
        Kind::Sqlite => "zeroblob(32)",
        Kind::Postgres => "decode(repeat('00', 32), 'hex')",
    }
}

impl Bed {
    pub fn new(kind: Kind) -> Self {
        let database = Database::new(kind);
        let store = wait_for(open_retention(database.url())).expect("the tables can be made");
        Self { database, store }
    }

    pub fn another_cleaner(&self) -> Arc<dyn RetentionStore> {
        wait_for(open_retention(self.database.url())).expect("the database answers")
    }

    /// How far a group has settled a partition.
    pub fn settled(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        self.database.run(&format!(
            "INSERT INTO {} (\"group\", topic, \"partition\", began, \"offset\") \
             VALUES ('{group}', '{topic}', {partition}, 0, {offset}) ON CONFLICT DO NOTHING",
            table(&self.database, "watermarks"),
        ));
    }

    pub fn put(&self, row: Row<'_>) {
        let Row { job, key, state, group, topic, partition, offset, age } = row;
        self.settled(group, topic, partition, 1_000_000);
        self.database.run(&format!(
            "INSERT INTO {} (job, key, state, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\", processed_at) \
             VALUES ('{job}', '{key}', '{state}', {}, 'v1', '{group}', '{topic}', {partition}, {offset}, {})",
            table(&self.database, "processed"),
            zeros(&self.database),
            ago(&self.database, age),
        ));
    }

    /// Many that may go, of one partition.
    pub fn put_many(&self, job: &str, rows: i64) {
        self.settled(GROUP, "orders", 0, 1_000_000_000);
        let numbers = match self.database.kind {
            Kind::Sqlite => format!(
                "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)"
            ),
            Kind::Postgres => format!("(SELECT generate_series(1, {rows}) AS n)"),
        };
        self.database.run(&format!(
            "INSERT INTO {} (job, key, fingerprint, scheme, \"group\", topic, \"partition\", \"offset\", processed_at) \
             SELECT '{job}', '[' || n || ']', {}, 'v1', '{GROUP}', 'orders', 0, n, {} FROM {numbers} AS s",
            table(&self.database, "processed"),
            zeros(&self.database),
            ago(&self.database, 7_200),
        ));
    }

    /// A dead letter; without a key if that is NULL.
    pub fn put_letter(&self, job: &str, key: Option<&str>, state: &str, died: u64, sent: &str) {
        let (zeros, died) = (zeros(&self.database), ago(&self.database, died));
        let (names, values) = match self.database.kind {
            Kind::Sqlite => ("headers", "'[]'"),
            Kind::Postgres => ("header_names, header_values", "'{}', '{}'"),
        };
        let (key, keyed) = match key {
            Some(key) => (format!("'{key}'"), format!("{}, 'v1'", other(&self.database))),
            None => ("NULL".to_owned(), "NULL, NULL".to_owned()),
        };
        self.database.run(&format!(
            "INSERT INTO {} (job, \"group\", topic, \"partition\", \"offset\", digest, {names}, \"timestamp\", key, \
             fingerprint, scheme, reason, error, attempts, state, died_at) \
             VALUES ('{job}', '{GROUP}', 'orders', 0, 1, {zeros}, {values}, {sent}, {key}, {keyed}, 'x', 'x', 1, '{state}', {died})",
            table(&self.database, "dead_letters"),
        ));
    }

    pub fn keys(&self) -> i64 {
        self.database.number(&format!("SELECT count(*) FROM {}", table(&self.database, "processed")))
    }

    pub fn has(&self, key: &str) -> bool {
        let table = table(&self.database, "processed");
        self.database.number(&format!("SELECT count(*) FROM {table} WHERE key = '{key}'")) > 0
    }

    /// A sweep of the whole table, whenever the last one was.
    pub fn sweep(&self, purge: &Purge) -> Swept {
        wait_for(walk(&*self.store, purge, Duration::ZERO)).expect("it can be purged").expect("nobody else does")
    }
}

/// A fingerprint that no row has.
fn other(database: &Database) -> &'static str {
    match database.kind {
        Kind::Sqlite => "x'01'",
        Kind::Postgres => "'\\x01'::bytea",
    }
}

/// Of partition 0 of `orders`: below offset 10,000, and older than an hour.
pub fn purge() -> Purge {
    let before = SystemTime::now() - HOUR;
    let bound = |partition, below| Bound { topic: "orders".to_owned(), partition, below, before };
    Purge { group: GROUP.to_owned(), bounds: vec![bound(0, 1_000_000), bound(1, 3)] }
}

pub fn of_orders(keys: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("orders".to_owned(), keys)])
}
