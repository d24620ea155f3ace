//! The store's part.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use idempotent_jobs::__private::retention::walk;
use idempotent_jobs::__private::store::{Access, Begun, Purge, open_operate};
use tests::database::Kind;
use tests::wait_for;

use super::{Bed, HOUR, Row, ago, of_orders, purge, row, table};

/// DED-04: age alone says nothing.
pub fn only_what_is_old_and_below_the_committed_offset_goes(kind: Kind) {
    let bed = Bed::new(kind);
    bed.put(row("goes"));
    bed.put(Row { partition: 1, offset: 2, ..row("goes too") });
    bed.put(Row { partition: 1, offset: 3, ..row("at the committed offset") });
    bed.put(Row { offset: 1_000_000, ..row("at that of another partition") });
    bed.put(Row { partition: 2, ..row("of a partition without a committed offset") });
    bed.put(Row { age: 3_500, ..row("young") });
    bed.put(Row { group: "another", ..row("of another group") });
    bed.put(Row { topic: "refunds", ..row("of another topic") });
    let swept = bed.sweep(&purge());
    assert_eq!(swept.purged, of_orders(2));
    assert_eq!(bed.keys(), 6);
    assert!(!bed.has("goes") && !bed.has("goes too"));
    let oldest = swept.oldest.expect("some are left").elapsed().expect("it is past");
    assert!((HOUR * 2..HOUR * 3).contains(&oldest), "{oldest:?}");
    assert_eq!(bed.sweep(&Purge { bounds: Vec::new(), ..purge() }).purged, BTreeMap::new(), "no bounds, no purge");
}

/// Whatever may be run again keeps its key: also another message's that has the key of a done one.
pub fn keys_of_dead_letters_stay_until_they_are_redriven(kind: Kind) {
    let bed = Bed::new(kind);
    for state in ["open", "requested", "skipped", "redriven"] {
        bed.put(Row { state: "dead", ..row(state) });
        bed.put_letter("charge", Some(state), state, 7_200, "NULL");
    }
    bed.put(row("in conflict"));
    bed.put_letter("charge", Some("in conflict"), "open", 7_200, "NULL");
    bed.put(Row { job: "audit", ..row("of another job") });
    bed.put_letter("charge", Some("of another job"), "open", 7_200, "NULL");
    assert_eq!(bed.sweep(&purge()).purged, of_orders(2));
    assert!(!bed.has("redriven") && !bed.has("of another job"));
    for key in ["open", "requested", "skipped", "in conflict"] {
        assert!(bed.has(key), "{key}");
    }
}

/// Where others use a job's name, nobody knows alone what may still come.
pub fn keys_of_a_job_that_was_ever_shared_stay(kind: Kind) {
    let bed = Bed::new(kind);
    let jobs = table(&bed.database, "jobs");
    bed.database.run(&format!(
        "INSERT INTO {jobs} (name, \"group\", topic, key_form, scheme, shared) VALUES \
         ('charge', 'billing', 'orders', 'id', 'v1', true), ('audit', 'billing', 'orders', 'id', 'v1', false)"
    ));
    bed.put(row("shared"));
    bed.put(Row { job: "audit", ..row("own") });
    assert_eq!(bed.sweep(&purge()).purged, of_orders(1));
    assert!(bed.has("shared"));
}

/// DB-16: by small steps, in all of the table, and what comes meanwhile stays.
pub fn a_large_table_is_walked_through_in_small_steps(kind: Kind) {
    const MANY: i64 = 20_000;
    let bed = Bed::new(kind);
    bed.put_many("charge", MANY);
    bed.put(Row { age: 0, ..row("young") });
    let purge = purge();
    let Begun::Walk(mut walk) = wait_for(bed.store.begin(&purge.group, HOUR)).expect("it begins") else {
        panic!("nobody else purges")
    };
    let (mut all, mut steps) = (0, 0);
    loop {
        let step = wait_for(bed.store.step(&mut walk, &purge)).expect("a step").expect("nobody else purges");
        let rows: u64 = step.purged.iter().map(|gone| gone.rows).sum();
        assert!(rows <= 2_500, "{rows} rows in one transaction");
        if let [gone] = &step.purged[..] {
            assert!(gone.topic == "orders" && gone.partition == 0 && gone.next <= MANY + 1, "{gone:?}");
        }
        (all, steps) = (all + rows, steps + 1);
        if steps == 2 {
            bed.put(Row { age: 0, ..row("meanwhile") });
        }
        if step.last {
            break;
        }
    }
    wait_for(bed.store.end(&purge.group)).expect("it ends");
    assert_eq!(i64::try_from(all), Ok(MANY));
    assert!(steps >= 8, "{steps} steps");
    assert!(bed.has("young") && bed.has("meanwhile") && bed.keys() == 2);
}

/// A group's workers share the work: one sweep in a while.
pub fn a_group_that_was_swept_rests(kind: Kind) {
    let bed = Bed::new(kind);
    bed.sweep(&purge());
    let begin = |group: &str, rest| wait_for(bed.store.begin(group, rest)).expect("the database answers");
    assert_eq!(begin("billing", HOUR), Begun::Rested);
    assert!(matches!(begin("another", HOUR), Begun::Walk(_)), "another group has its own");
    wait_for(bed.store.end("another")).expect("it ends");
    bed.database.run(&format!(
        "UPDATE {} SET swept_at = {}",
        table(&bed.database, "sweeps"),
        ago(&bed.database, 4_000)
    ));
    assert!(matches!(begin("billing", HOUR), Begun::Walk(_)));
}

/// Two at once take each row once, and end.
pub fn two_cleaners_at_once_purge_each_key_once(kind: Kind) {
    let bed = Bed::new(kind);
    bed.put_many("charge", 30_000);
    bed.put(Row { age: 0, ..row("young") });
    let (purge, other) = (purge(), bed.another_cleaner());
    let (one, two) = wait_for(async {
        futures_util::future::join(walk(&*bed.store, &purge, Duration::ZERO), walk(&*other, &purge, Duration::ZERO))
            .await
    });
    let purged = |swept: Result<Option<_>, _>| {
        let swept: Option<idempotent_jobs::__private::retention::Swept> = swept.expect("it can be purged");
        swept.map_or(0, |swept| swept.purged.values().sum::<u64>())
    };
    assert_eq!(purged(one) + purged(two), 30_000);
    assert_eq!(bed.keys(), 1);
}

/// What holds the clock of a topic.
pub fn the_oldest_of_what_may_come_again_is_found(kind: Kind) {
    let bed = Bed::new(kind);
    let topics = ["orders".to_owned(), "refunds".to_owned()];
    let unsent = || wait_for(bed.store.unsent(&topics)).expect("the database answers");
    assert_eq!(unsent(), BTreeMap::new());
    let (outbox, sent) = (table(&bed.database, "outbox"), table(&bed.database, "sent"));
    for (topic, age) in [("orders", 500), ("orders", 100), ("elsewhere", 900)] {
        bed.database.run(&format!(
            "INSERT INTO {outbox} (topic, key, key_parts, shard, ordered, size, enqueued_at) \
             VALUES ('{topic}', '[{age}]', 'n', 0, {}, 1, {})",
            if kind == Kind::Sqlite { "1" } else { "true" },
            ago(&bed.database, age)
        ));
    }
    let (names, values) =
        if kind == Kind::Sqlite { ("headers", "'[]'") } else { ("header_names, header_values", "'{}', '{}'") };
    bed.database.run(&format!(
        "INSERT INTO {sent} (id, topic, key, key_parts, {names}, shard, ordered, size, first_at) \
         VALUES (1, 'refunds', '[1]', 'n', {values}, 0, {}, 1, {})",
        if kind == Kind::Sqlite { "1" } else { "true" },
        ago(&bed.database, 700)
    ));
    assert_eq!(ages(&unsent()), [("orders", 500), ("refunds", 700)], "one that is kept can be sent again");
    // On its way once more it is as old as before.
    let operate = wait_for(open_operate(bed.database.url(), Access::Change)).expect("it opens");
    assert_eq!(wait_for(operate.replay("refunds", "[1]")).expect("it is kept"), 1);
    assert_eq!(ages(&unsent()), [("orders", 500), ("refunds", 700)], "one that is sent once more needs a key as old");

    let unkeyed = || wait_for(bed.store.unkeyed("billing", &topics, HOUR)).expect("the database answers");
    bed.put_letter("charge", Some("[1]"), "open", 5_000, "1");
    bed.put_letter("done", None, "redriven", 5_000, "1");
    bed.put_letter("given up", None, "skipped", 5_000, "1");
    assert_eq!(unkeyed(), BTreeMap::new());
    bed.put_letter("young", None, "requested", 100, "NULL");
    assert_eq!(ages(&unkeyed()), [("orders", 3_700)], "it may have been sent an hour before");
    let sent = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is past 1970").as_millis();
    bed.put_letter("old", None, "open", 4_000, &(sent - 4_500_000).to_string());
    assert_eq!(ages(&unkeyed()), [("orders", 4_500)], "its sender says when");
    bed.put_letter("liar", None, "open", 1_000, "17");
    assert_eq!(ages(&unkeyed()), [("orders", 4_600)], "believed as far as it can be true");
    assert_eq!(wait_for(bed.store.unkeyed("another", &topics, HOUR)).expect("the database answers"), BTreeMap::new());

    let in_hand = || wait_for(bed.store.in_hand("billing", &topics)).expect("the database answers");
    assert_eq!(in_hand(), BTreeSet::new());
    let attempts = table(&bed.database, "attempts");
    let digest = if bed.database.kind == Kind::Sqlite { "x'00'" } else { "'\\x00'" };
    for (group, topic) in [("billing", "refunds"), ("another", "orders")] {
        bed.database.run(&format!(
            "INSERT INTO {attempts} (\"group\", topic, \"partition\", \"offset\", job, digest) \
             VALUES ('{group}', '{topic}', 0, 7, 'charge', {digest})"
        ));
    }
    let owners = table(&bed.database, "owners");
    for (group, topic) in [("billing", "orders"), ("another", "orders")] {
        bed.database.run(&format!(
            "INSERT INTO {owners} (\"group\", topic, \"partition\", owner, position, deaths) \
             VALUES ('{group}', '{topic}', 5, 'me', 0, 0)"
        ));
    }
    let both = [("refunds", 0), ("orders", 5)].map(|(topic, number)| (topic.to_owned(), number));
    assert_eq!(in_hand(), BTreeSet::from(both), "tried and waiting, or only read");
}

/// In seconds, roundly.
fn ages(times: &BTreeMap<String, SystemTime>) -> Vec<(&str, u64)> {
    let age = |time: &SystemTime| time.elapsed().expect("it is past").as_secs() / 50 * 50;
    times.iter().map(|(topic, time)| (topic.as_str(), age(time))).collect()
}

/// Before rows go, whoever reads from below them is told.
pub fn the_watermark_is_told_how_far_the_purge_went(kind: Kind) {
    let bed = Bed::new(kind);
    let watermarks = table(&bed.database, "watermarks");
    for (partition, purged_to) in [(0, 0), (1, 90)] {
        bed.database.run(&format!(
            "INSERT INTO {watermarks} (\"group\", topic, \"partition\", began, \"offset\", purged_to) \
             VALUES ('billing', 'orders', {partition}, 0, 100, {purged_to})"
        ));
    }
    bed.put(Row { offset: 41, ..row("a") });
    bed.put(Row { offset: 12, ..row("b") });
    bed.put(Row { partition: 1, offset: 2, ..row("c") });
    assert_eq!(bed.sweep(&purge()).purged, of_orders(3));
    let of = |partition| {
        bed.database.number(&format!("SELECT purged_to FROM {watermarks} WHERE \"partition\" = {partition}"))
    };
    assert_eq!((of(0), of(1)), (42, 90), "never back");
}

/// DED-04: whatever Kafka says, what this database does not know as settled may come again.
pub fn what_the_database_does_not_know_as_settled_stays(kind: Kind) {
    let bed = Bed::new(kind);
    bed.settled("billing", "orders", 0, 5);
    bed.put(Row { offset: 4, ..row("done") });
    bed.put(Row { offset: 5, ..row("lost") });
    assert_eq!(bed.sweep(&purge()).purged, of_orders(1));
    assert!(bed.has("lost") && !bed.has("done"));
}
