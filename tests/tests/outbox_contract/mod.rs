//! What a relay and an operator may expect of a database, whichever it is.

use std::sync::Arc;
use std::time::Duration;

use idempotent_jobs::__private::store::{Failure, Kept, Place, RelayStore, Row, Wanted, open_relay};
use idempotent_jobs::outbox::Outbox;
use tests::database::{Database, Kind};
use tests::wait_for;

/// A database of its own for one test, and a relay's connections.
pub struct Bed {
    pub database: Database,
    pub store: Arc<dyn RelayStore>,
}

/// A row as a test needs it; the rest does not matter to it.
#[derive(Clone, Copy)]
pub struct New {
    pub topic: &'static str,
    pub n: i64,
    pub lane: Option<&'static str>,
    pub shard: i16,
    pub ordered: bool,
    pub size: i64,
}

pub fn row(n: i64) -> New {
    New { topic: "a", n, lane: Some("x"), shard: 0, ordered: true, size: 100 }
}

impl Bed {
    pub fn new(kind: Kind) -> Self {
        let database = Database::new(kind);
        let store = wait_for(open_relay(database.url())).expect("the tables can be made");
        Self { database, store }
    }

    pub fn table(&self, name: &str) -> String {
        match self.database.kind {
            Kind::Sqlite => format!("idempotent_jobs_{name}"),
            Kind::Postgres => format!("idempotent_jobs.{name}"),
        }
    }

    pub fn put(&self, row: New) {
        let New { topic, n, lane, shard, ordered, size } = row;
        let lane = lane.map_or("NULL".to_owned(), |lane| format!("'{lane}'"));
        self.database.run(&format!(
            "INSERT INTO {} (topic, key, key_parts, partition_key, shard, ordered, size) \
             VALUES ('{topic}', '[{n}]', 'n', {lane}, {shard}, {}, {size})",
            self.table("outbox"),
            match self.database.kind {
                Kind::Sqlite => i32::from(ordered).to_string(),
                Kind::Postgres => ordered.to_string(),
            }
        ));
    }

    pub fn count(&self, table: &str, state: &str) -> i64 {
        self.database.number(&format!("SELECT count(*) FROM {} {state}", self.table(table)))
    }

    pub fn due(&self, wanted: Wanted) -> Vec<Row> {
        wait_for(self.store.due(&wanted)).expect("the outbox can be read")
    }

    /// The keys of all that is due.
    pub fn keys(&self) -> Vec<String> {
        self.due(all()).into_iter().map(|row| row.key).collect()
    }

    pub fn keep(&self, relay: &str) -> Kept {
        wait_for(self.store.keep(relay, false, |live| 32usize.div_ceil(live))).expect("a relay can say that it lives")
    }

    fn fail(&self, place: Place, again: Option<Duration>) {
        let failures = [Failure { place, error: "no\0such".into(), again }];
        wait_for(self.store.failed("me", &failures)).expect("failures can be recorded");
    }

    fn promote(&self) -> u64 {
        wait_for(self.store.promote()).expect("rows can be made ready")
    }

    fn expire(&self, relay: &str) {
        let past = match self.database.kind {
            Kind::Sqlite => "'2000-01-01T00:00:00.000Z'",
            Kind::Postgres => "'2000-01-01'",
        };
        let (shards, relays) = (self.table("shards"), self.table("relays"));
        self.database.run(&format!("UPDATE {shards} SET owned_until = {past} WHERE owner = '{relay}'"));
        self.database.run(&format!("UPDATE {relays} SET alive_until = {past} WHERE id = '{relay}'"));
    }
}

pub fn all() -> Wanted {
    Wanted { shards: (0..32).collect(), rows: 1_000, bytes: 1 << 20, ..Wanted::default() }
}

pub fn rows_come_whole_and_in_order(bed: &Bed) {
    let headers = match bed.database.kind {
        Kind::Sqlite => ("headers", "'[[\"a\",\"00ff\"],[\"a\",null]]'", "x'01ff'"),
        Kind::Postgres => ("header_names, header_values", "'{a,a}', ARRAY['\\x00ff'::bytea, NULL]", "'\\x01ff'"),
    };
    bed.database.run(&format!(
        "INSERT INTO {} (topic, key, long_key, key_parts, event, partition_key, payload, shard, ordered, size, {}) \
         VALUES ('a', 'sha256:1', '[\"long\"]', 'n', 'placed', 'x', {}, 31, {}, 77, {})",
        bed.table("outbox"),
        headers.0,
        headers.2,
        if bed.database.kind == Kind::Sqlite { "1" } else { "true" },
        headers.1
    ));
    bed.put(New { lane: None, ordered: false, ..row(2) });
    let found = bed.due(all());
    let first = Row {
        place: Place { shard: 31, id: found[0].place.id },
        topic: "a".into(),
        key: "[\"long\"]".into(),
        key_parts: "n".into(),
        event: Some("placed".into()),
        partition_key: Some("x".into()),
        payload: Some(vec![1, 255]),
        headers: vec![("a".into(), Some(vec![0, 255])), ("a".into(), None)],
        ordered: true,
        size: 77,
        attempts: 0,
    };
    assert!(found[0] == first, "the first row is not what was put there");
    assert_eq!((found[1].payload.as_ref(), found[1].partition_key.as_ref(), found[1].ordered), (None, None, false));
    assert!(found[0].place.id < found[1].place.id);
}

pub fn only_what_was_asked_for_is_read(bed: &Bed) {
    (0..10).for_each(|n| bed.put(New { shard: i16::from(n >= 5), ..row(n) }));
    bed.put(New { topic: "b", ..row(10) });
    let ids: Vec<i64> = bed.due(all()).iter().map(|row| row.place.id).collect();
    assert_eq!(ids.len(), 11);
    assert!(ids.is_sorted());
    let asked = |wanted: Wanted| bed.due(wanted).into_iter().map(|row| row.key).collect::<Vec<_>>();
    assert_eq!(asked(Wanted { shards: vec![1], ..all() }), ["[5]", "[6]", "[7]", "[8]", "[9]"]);
    assert_eq!(asked(Wanted { except: ids[1..].to_vec(), ..all() }), ["[0]"]);
    assert_eq!(asked(Wanted { except_topics: vec!["a".into(), "c".into()], ..all() }), ["[10]"]);
    assert_eq!(asked(Wanted { rows: 2, ..all() }), ["[0]", "[1]"]);
    assert_eq!(asked(Wanted { bytes: 201, ..all() }), ["[0]", "[1]", "[2]"]);
    assert_eq!(asked(Wanted { walk: Some(2), ..all() }), ["[0]", "[1]", "[5]", "[6]"]);
    assert_eq!(asked(Wanted { bytes: 1, ..all() }), ["[0]"], "one at least");
    assert_eq!(asked(Wanted { shards: vec![], ..all() }), [""; 0]);
}

pub fn a_hot_shard_starves_nobody(bed: &Bed) {
    (0..100).for_each(|n| bed.put(row(n)));
    bed.put(New { shard: 7, lane: Some("y"), ..row(100) });
    let found = bed.due(Wanted { shards: vec![0, 7, 8, 9], rows: 40, ..all() });
    assert!(found.iter().any(|row| row.place.shard == 7));
    assert_eq!(found.len(), 21, "twice the part of one shard, and the other");
}

pub fn out_05_a_refused_row_holds_back_its_key_alone(bed: &Bed) {
    bed.keep("me");
    bed.put(row(0));
    bed.put(row(1));
    bed.put(New { lane: Some("y"), ..row(2) });
    bed.put(New { topic: "b", ..row(3) });
    bed.put(New { ordered: false, ..row(4) });
    let first = bed.due(all())[0].place;
    bed.fail(first, Some(Duration::from_secs(3_600)));
    assert_eq!(bed.keys(), ["[2]", "[3]", "[4]"]);
    assert_eq!(bed.promote(), 0);
    let past = if bed.database.kind == Kind::Sqlite { "'2000-01-01T00:00:00.000Z'" } else { "'2000-01-01'" };
    bed.database.run(&format!("UPDATE {} SET due_at = {past} WHERE state = 'later'", bed.table("outbox")));
    assert_eq!(bed.promote(), 1);
    assert_eq!(bed.keys(), ["[0]", "[1]", "[2]", "[3]", "[4]"]);
    assert_eq!(bed.due(all())[0].attempts, 1);
    bed.fail(first, None);
    assert_eq!(bed.keys(), ["[2]", "[3]", "[4]"]);
    assert_eq!(bed.count("outbox", "WHERE state = 'failed' AND attempts = 2 AND due_at IS NULL"), 1);
}

pub fn out_05_what_lies_behind_a_set_aside_row_is_held_and_let_go(bed: &Bed) {
    bed.keep("me");
    let hold = || wait_for(bed.store.hold(&(0..32).collect::<Vec<_>>())).expect("rows can be held");
    (0..4).for_each(|n| bed.put(row(n)));
    bed.put(New { lane: Some("y"), ..row(4) });
    bed.put(New { ordered: false, ..row(5) });
    assert_eq!(hold(), 0);
    bed.fail(bed.due(all())[0].place, None);
    assert_eq!(hold(), 3);
    bed.put(row(6));
    assert_eq!(bed.keys(), ["[4]", "[5]"]);
    assert_eq!(bed.count("outbox", "WHERE state = 'held'"), 3);

    // Redriven it goes first, and those held go after it; what came later waits for them all the while.
    let outbox = wait_for(Outbox::connect(bed.database.url())).expect("an operator can connect");
    assert_eq!(wait_for(outbox.redrive("a", Some("[0]"))).expect("it can be redriven"), 1);
    assert_eq!(bed.keys(), ["[0]", "[4]", "[5]"]);
    assert_eq!(hold(), 3);
    assert_eq!(bed.keys(), ["[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]"]);

    bed.fail(bed.due(all())[0].place, None);
    assert_eq!(hold(), 4);
    assert_eq!(wait_for(outbox.discard("a", None)).expect("it can be discarded"), 1);
    bed.put(row(7));
    assert_eq!(bed.keys(), ["[4]", "[5]"], "none passes those that are held");
    assert_eq!(hold(), 4);
    assert_eq!(bed.keys(), ["[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]"]);
}

pub fn out_05_a_row_that_was_redriven_waits_for_none_behind_it(bed: &Bed) {
    bed.keep("me");
    bed.put(row(0));
    bed.fail(bed.due(all())[0].place, None);
    // Of the same key, set aside too: it was ready before the first one failed.
    bed.put(New { lane: Some("z"), ..row(1) });
    bed.fail(bed.due(all())[0].place, None);
    bed.database.run(&format!("UPDATE {} SET partition_key = 'x'", bed.table("outbox")));
    let outbox = wait_for(Outbox::connect(bed.database.url())).expect("an operator can connect");
    assert_eq!(wait_for(outbox.redrive("a", Some("[0]"))).expect("it can be redriven"), 1);
    assert_eq!(bed.keys(), ["[0]"]);
}

pub fn out_03_a_stale_relay_records_no_failure(bed: &Bed) {
    bed.keep("another");
    bed.put(row(0));
    bed.fail(bed.due(all())[0].place, None);
    assert_eq!(bed.count("outbox", "WHERE state = 'ready' AND attempts = 0"), 1);
}

pub fn what_was_sent_goes_or_is_kept(bed: &Bed) {
    (0..4).for_each(|n| bed.put(row(n)));
    let places: Vec<Place> = bed.due(all()).iter().map(|row| row.place).collect();
    let sent = |places: &[Place], keep| wait_for(bed.store.sent(places, keep)).expect("rows can be marked");
    sent(&places[..2], false);
    sent(&places[..2], false);
    assert_eq!((bed.count("outbox", ""), bed.count("sent", "")), (2, 0));
    sent(&places, true);
    sent(&places, true);
    assert_eq!((bed.count("outbox", ""), bed.count("sent", "")), (0, 2));
    let purge = |older| wait_for(bed.store.purge(older)).expect("sent rows can be purged");
    assert_eq!(purge(Duration::from_secs(60)), 0);
    let past = if bed.database.kind == Kind::Sqlite { "'2000-01-01T00:00:00.000Z'" } else { "'2000-01-01'" };
    bed.database.run(&format!("UPDATE {} SET sent_at = {past}", bed.table("sent")));
    assert_eq!(purge(Duration::from_secs(60)), 2);
}

pub fn relays_share_and_take_over(bed: &Bed) {
    let a = bed.keep("a");
    assert_eq!((a.live, a.renewed.len(), a.taken.len()), (1, 0, 32));
    let b = bed.keep("b");
    assert_eq!((b.live, b.renewed.len(), b.taken.len()), (2, 0, 0));
    let again = bed.keep("a");
    assert_eq!((again.live, again.renewed.len(), again.taken.len()), (2, 32, 0));
    wait_for(bed.store.release("a", &(0..16).collect::<Vec<_>>())).expect("shards can be given back");
    let mut taken = bed.keep("b").taken;
    taken.sort_unstable();
    assert_eq!(taken, (0..16).collect::<Vec<_>>());
    wait_for(bed.store.release("a", &[0])).expect("nothing happens");
    assert_eq!(bed.keep("b").renewed.len(), 16, "nobody gives away what is another's");
    // Its lease is over, and nobody took anything: all of it is still its own.
    bed.expire("a");
    assert_eq!(bed.keep("a").renewed.len(), 16);
    bed.expire("a");
    let b = bed.keep("b");
    assert_eq!((b.live, b.renewed.len(), b.taken.len()), (1, 16, 16));
    let a = bed.keep("a");
    assert_eq!((a.live, a.renewed.len(), a.taken.len()), (2, 0, 0));
    wait_for(bed.store.leave("b")).expect("a relay can leave");
    assert_eq!(bed.keep("a").taken.len(), 32);
}

pub fn the_oldest_ready_row_has_an_age(bed: &Bed) {
    let oldest = || wait_for(bed.store.oldest(&(0..32).collect::<Vec<_>>())).expect("the outbox can be looked at");
    assert_eq!(oldest(), None);
    bed.put(row(0));
    let past = if bed.database.kind == Kind::Sqlite { "'2000-01-01T00:00:00.000Z'" } else { "'2000-01-01'" };
    bed.database.run(&format!("UPDATE {} SET enqueued_at = {past}", bed.table("outbox")));
    assert!(oldest().expect("there is a row") > Duration::from_secs(20 * 365 * 86_400));
}

pub fn out_04_what_was_set_aside_is_listed_redriven_and_discarded(bed: &Bed) {
    bed.keep("me");
    (0..2).for_each(|n| bed.put(New { lane: Some(if n == 0 { "x" } else { "y" }), ..row(n) }));
    let outbox = wait_for(Outbox::connect(bed.database.url())).expect("an operator can connect");
    assert!(wait_for(outbox.set_aside(10)).expect("it can be listed").is_empty());
    bed.due(all()).iter().for_each(|row| bed.fail(row.place, None));
    let listed = wait_for(outbox.set_aside(10)).expect("it can be listed");
    assert_eq!(listed.len(), 2);
    assert_eq!((&*listed[0].topic, &*listed[0].key, listed[0].attempts, listed[0].size), ("a", "[0]", 1, 100));
    assert!(listed[0].error.starts_with("no"), "{:?}", listed[0]);
    assert!(!format!("{:?}", listed[0]).contains("[0]"), "keys are not shown");
    assert_eq!(wait_for(outbox.set_aside(1)).expect("it can be listed").len(), 1);
    let count = |topic, key| wait_for(outbox.count(topic, key)).expect("they can be counted");
    assert_eq!([count("a", None), count("a", Some("[0]")), count("a", Some("[7]")), count("b", None)], [2, 1, 0, 0]);
    let redrive = |key| wait_for(outbox.redrive("a", key)).expect("it can be redriven");
    assert_eq!((redrive(Some("[7]")), redrive(Some("[0]"))), (0, 1));
    assert_eq!(bed.keys(), ["[0]"]);
    assert_eq!(bed.due(all())[0].attempts, 0);
    assert_eq!(wait_for(outbox.discard("a", Some("[0]"))).expect("it can be discarded"), 0, "it is ready");
    assert_eq!(wait_for(outbox.discard("a", None)).expect("it can be discarded"), 1);
    assert_eq!(bed.count("outbox", ""), 1);
}

pub fn out_09_what_was_sent_and_kept_is_replayed_with_its_key(bed: &Bed) {
    (0..2).for_each(|n| bed.put(row(n)));
    let before = bed.due(all());
    let places: Vec<Place> = before.iter().map(|row| row.place).collect();
    wait_for(bed.store.sent(&places, true)).expect("rows can be marked");
    let outbox = wait_for(Outbox::connect(bed.database.url())).expect("an operator can connect");
    let replay = |key| wait_for(outbox.replay("a", key)).expect("it can be replayed");
    let first = "'2020-02-02T02:02:02.000Z'";
    bed.database.run(&format!("UPDATE {} SET first_at = {first}", bed.table("sent")));
    assert_eq!((replay("[7]"), replay("[1]"), replay("[1]")), (0, 1, 0));
    let after = bed.due(all());
    assert_eq!(bed.keys(), ["[1]"]);
    assert!(after[0].place.id > before[1].place.id, "it is the youngest now");
    assert!(after[0].place.shard == before[1].place.shard && after[0].partition_key == before[1].partition_key);
    assert_eq!(bed.count("sent", ""), 1);
    // However often it is sent: keys are kept for it by its first time.
    assert_eq!(bed.count("outbox", &format!("WHERE first_at = {first} AND enqueued_at > {first}")), 1);
    wait_for(bed.store.sent(&[after[0].place], true)).expect("rows can be marked");
    assert_eq!(bed.count("sent", &format!("WHERE first_at = {first} AND sent_at > {first}")), 2);
}

/// Every test of the contract, on one database.
#[macro_export]
macro_rules! outbox_contract {
    ($kind:expr, $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            outbox_contract::$name(&outbox_contract::Bed::new($kind));
        })*
    };
    ($kind:expr) => {
        outbox_contract!(
            $kind,
            rows_come_whole_and_in_order,
            only_what_was_asked_for_is_read,
            a_hot_shard_starves_nobody,
            out_05_a_refused_row_holds_back_its_key_alone,
            out_05_what_lies_behind_a_set_aside_row_is_held_and_let_go,
            out_05_a_row_that_was_redriven_waits_for_none_behind_it,
            out_03_a_stale_relay_records_no_failure,
            what_was_sent_goes_or_is_kept,
            relays_share_and_take_over,
            the_oldest_ready_row_has_an_age,
            out_04_what_was_set_aside_is_listed_redriven_and_discarded,
            out_09_what_was_sent_and_kept_is_replayed_with_its_key,
        );
    };
}
