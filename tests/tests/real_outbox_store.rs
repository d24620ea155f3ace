//! The outbox's contract on PostgreSQL.

mod outbox_contract;

use std::time::Duration;

use idempotent_jobs::__private::store::{Failure, Wanted};
use outbox_contract::{Bed, all};
use tests::database::Kind;
use tests::outbox::rows;
use tests::wait_for;

outbox_contract!(Kind::Postgres);

/// Whatever the statistics say: they are of a table that was empty.
/// A topic that is gone leaves as many as there are keys.
#[test]
fn out_05_a_quarter_of_a_million_set_aside_hold_up_no_reader() {
    let bed = Bed::new(Kind::Postgres);
    bed.database.run(
        "INSERT INTO idempotent_jobs.outbox (topic, key, key_parts, partition_key, shard, ordered, size, state, attempts) \
         SELECT 'gone', n::text, 'n', 'order ' || n, n % 32, true, 200, 'failed', 10 FROM generate_series(1, 250000) AS n; \
         INSERT INTO idempotent_jobs.outbox (topic, key, key_parts, partition_key, shard, ordered, size) \
         SELECT 'there', n::text, 'n', 'order ' || n, n % 32, true, 200 FROM generate_series(1, 8000) AS n; \
         ANALYZE idempotent_jobs.outbox",
    );
    let began = std::time::Instant::now();
    assert_eq!(bed.due(Wanted { rows: 8_000, bytes: 64 << 20, ..all() }).len(), 8_000);
    let read = began.elapsed();
    assert_eq!(wait_for(bed.store.hold(&(0..32).collect::<Vec<_>>())).expect("rows can be held"), 0);
    // Some 60 ms each; with a look at all of them for each row it is a quarter of an hour.
    assert!(began.elapsed() < Duration::from_secs(5), "{read:?} to read, {:?} in all", began.elapsed());
}

#[test]
fn every_statement_of_a_relay_has_its_index() {
    let bed = Bed::new(Kind::Postgres);
    bed.database.run("ANALYZE idempotent_jobs.outbox; ANALYZE idempotent_jobs.sent");
    let rows = |from: i64| {
        (0..32).for_each(|lane| bed.database.run(&rows("a", lane, from..from + 500)));
    };
    rows(0);
    let scans = "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname IN ('outbox', 'sent')";
    let before = bed.database.number(scans);
    bed.keep("me");
    for keep in [false, true] {
        let due = bed.due(Wanted { rows: 4_000, bytes: 64 << 20, ..all() });
        assert_eq!(due.len(), 4_000);
        let places: Vec<_> = due.iter().map(|row| row.place).collect();
        bed.due(Wanted { except: places.iter().map(|place| place.id).collect(), ..all() });
        let began = std::time::Instant::now();
        wait_for(bed.store.sent(&places, keep)).expect("rows can be marked");
        // Some 50 ms; a walk over all ready rows for each takes seconds.
        assert!(began.elapsed() < Duration::from_secs(1), "{:?} for 4,000 rows", began.elapsed());
    }
    let refused = bed.due(all()).into_iter().take(100);
    let refused: Vec<_> =
        refused.map(|row| Failure { place: row.place, error: "no".into(), again: Some(Duration::ZERO) }).collect();
    wait_for(bed.store.failed("me", &refused)).expect("failures can be recorded");
    assert_eq!(wait_for(bed.store.promote()).expect("rows can be made ready"), 100);
    wait_for(bed.store.purge(Duration::ZERO)).expect("sent rows can be purged");
    wait_for(bed.store.oldest(&(0..32).collect::<Vec<_>>())).expect("the outbox can be looked at");
    // A session tells what it did when it ends.
    let Bed { database, store } = bed;
    drop(store);
    let told = "SELECT coalesce(sum(idx_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname = 'sent'";
    let deadline = std::time::Instant::now() + tests::PATIENCE;
    while database.number(told) == 0 {
        assert!(std::time::Instant::now() < deadline, "the sessions tell nothing");
    }
    assert_eq!(database.number(scans), before, "a statement read a whole table");
}
