//! Retention on Kafka, with PostgreSQL and with SQLite; and the store's part on PostgreSQL. SQLite's is in `retention.rs`.

mod purging;

use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use purging::{Bed, of_orders, purge, row};
use sqlx::{Connection, Executor, PgConnection};
use tests::database::Kind;
use tests::world::{CRASH, World};
use tests::{PATIENCE, wait_for};

const BOTH: [Kind; 2] = [Kind::Postgres, Kind::Sqlite];

#[test]
fn ded_04_after_a_long_stop_the_cleaner_fires_first_and_nothing_runs_again() {
    BOTH.into_iter().for_each(purging::worker::after_a_long_stop_the_cleaner_fires_first_and_nothing_runs_again);
}

#[test]
fn ded_04_behind_a_purge_of_older_keys_the_younger_are_still_duplicates() {
    BOTH.into_iter().for_each(purging::worker::behind_a_purge_of_older_keys_the_younger_are_still_duplicates);
}

#[test]
fn ded_04_what_may_be_sent_or_run_again_keeps_the_keys_of_its_time() {
    BOTH.into_iter().for_each(purging::worker::what_may_be_sent_or_run_again_keeps_the_keys_of_its_time);
}

#[test]
fn ded_04_marks_of_transactions_hold_up_no_purge() {
    BOTH.into_iter().for_each(purging::worker::marks_of_transactions_hold_up_no_purge);
}

#[test]
fn ded_04_windows_shorter_than_messages_live_are_refused() {
    BOTH.into_iter().for_each(purging::worker::windows_shorter_than_messages_live_are_refused);
}

#[test]
fn ded_04_nothing_is_purged_while_the_topic_or_the_brokers_say_no() {
    BOTH.into_iter().for_each(purging::worker::nothing_is_purged_while_the_topic_or_the_brokers_say_no);
}

#[test]
fn db_16_purges_of_many_keys_survive_kills_and_take_no_young_one() {
    purging::worker::purges_of_many_keys_survive_kills_and_take_no_young_one(Kind::Postgres, 200_000);
    purging::worker::purges_of_many_keys_survive_kills_and_take_no_young_one(Kind::Sqlite, 50_000);
}

#[test]
fn ded_04_only_what_is_old_and_below_the_committed_offset_goes() {
    purging::store::only_what_is_old_and_below_the_committed_offset_goes(Kind::Postgres);
}

#[test]
fn ded_05_keys_of_dead_letters_stay_until_they_are_redriven() {
    purging::store::keys_of_dead_letters_stay_until_they_are_redriven(Kind::Postgres);
}

#[test]
fn key_01_keys_of_a_job_that_was_ever_shared_stay() {
    purging::store::keys_of_a_job_that_was_ever_shared_stay(Kind::Postgres);
}

#[test]
fn db_16_a_large_table_is_walked_through_in_small_steps() {
    purging::store::a_large_table_is_walked_through_in_small_steps(Kind::Postgres);
}

#[test]
fn db_16_a_group_that_was_swept_rests() {
    purging::store::a_group_that_was_swept_rests(Kind::Postgres);
}

#[test]
fn db_16_two_cleaners_at_once_purge_each_key_once() {
    purging::store::two_cleaners_at_once_purge_each_key_once(Kind::Postgres);
}

#[test]
fn ded_04_the_oldest_of_what_may_come_again_is_found() {
    purging::store::the_oldest_of_what_may_come_again_is_found(Kind::Postgres);
}

#[test]
fn ded_04_what_the_database_does_not_know_as_settled_stays() {
    purging::store::what_the_database_does_not_know_as_settled_stays(Kind::Postgres);
}

#[test]
fn ded_04_the_watermark_is_told_how_far_the_purge_went() {
    purging::store::the_watermark_is_told_how_far_the_purge_went(Kind::Postgres);
}

/// A key costs one row that nothing changes: neither a duplicate nor a kill leaves dead rows for a vacuum.
#[test]
fn db_17_a_key_is_one_row_that_is_never_changed() {
    let world = World::real(CRASH);
    world.send(0..1_000);
    let child = world.child();
    child.heard_of(Point::Handled, 300);
    child.kill();
    world.send(0..1_000);
    let next = world.child();
    world.settled(PATIENCE);
    next.stop();
    world.assert_once();
    let of =
        |what| format!("SELECT {what} FROM pg_stat_all_tables WHERE relid = 'idempotent_jobs.processed'::regclass");
    // A server tells its numbers when its session is over.
    let deadline = Instant::now() + PATIENCE;
    while world.database.number(&of("n_live_tup")) < 1_000 {
        assert!(Instant::now() < deadline, "{} rows", world.database.number(&of("n_live_tup")));
        world.events.wait_briefly(Duration::from_millis(100), |_| false);
    }
    assert_eq!(world.database.number(&of("n_tup_upd + n_tup_del")), 0, "rows that were changed or deleted");
    let reserved = "SELECT count(*) FROM pg_class WHERE oid = 'idempotent_jobs.processed'::regclass \
         AND 'fillfactor=100' = ANY (reloptions) AND reloptions::text LIKE '%autovacuum_vacuum_insert_scale_factor%'";
    assert_eq!(world.database.number(reserved), 1, "settings of the table");
}

/// One cleaner a database, whatever its group; its connection's end is its end.
#[test]
fn db_16_another_cleaner_finds_the_database_busy_until_the_first_is_gone() {
    use idempotent_jobs::__private::store::Begun;
    let bed = Bed::new(Kind::Postgres);
    bed.put_many("charge", 3_000);
    let (purge, other) = (purge(), bed.another_cleaner());
    let Ok(Begun::Walk(mut walk)) = wait_for(bed.store.begin("billing", Duration::ZERO)) else { panic!("it begins") };
    let begin = || wait_for(other.begin("another", Duration::ZERO)).expect("the database answers");
    assert_eq!(begin(), Begun::Busy);
    // Whoever lost the session that held it finds that out before the next row goes.
    bed.database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1768187245 \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    );
    let mut theirs = loop {
        if let Begun::Walk(walk) = begin() {
            break walk;
        }
    };
    while wait_for(bed.store.step(&mut walk, &purge)).is_err() {}
    assert_eq!(wait_for(bed.store.step(&mut walk, &purge)).expect("the database answers"), None);
    assert_eq!(bed.keys(), 3_000);
    assert!(wait_for(other.step(&mut theirs, &purge)).expect("the database answers").is_some());
    wait_for(other.end("another")).expect("it ends");
    assert!(matches!(wait_for(bed.store.begin("billing", Duration::ZERO)), Ok(Begun::Walk(_))));
}

/// DB-16: nobody is held up by a purge, nor it by anybody.
#[test]
fn db_16_rows_that_others_hold_are_left_for_the_next_sweep() {
    let bed = Bed::new(Kind::Postgres);
    bed.put(row("held"));
    bed.put(row("free"));
    let url = bed.database.url().to_owned();
    let (begun, held) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let mut conn = PgConnection::connect(&url).await.expect("the database answers");
            conn.execute("BEGIN").await.expect("it begins");
            conn.execute("SELECT FROM idempotent_jobs.processed WHERE key = 'held' FOR UPDATE")
                .await
                .expect("it is held");
            begun.send(()).expect("the test goes on");
            let _ = gone.recv();
            conn.execute("UPDATE idempotent_jobs.processed SET processed_at = now() WHERE key = 'held'")
                .await
                .expect("it runs");
            conn.execute("COMMIT").await.expect("it commits");
        });
    });
    held.recv().expect("it is held");
    bed.sweep(&purge());
    assert!(bed.has("held"));
    drop(go);
    holder.join().expect("it ends");
    bed.sweep(&purge());
    assert!(bed.has("held") && !bed.has("free"), "it was made young meanwhile");
}

/// Every step reads its own pages and nothing else, whatever the statistics say.
#[test]
fn db_16_no_step_reads_a_whole_table() {
    let bed = Bed::new(Kind::Postgres);
    bed.put_many("charge", 50_000);
    for n in 0..200 {
        bed.put_letter("charge", Some(&format!("[{n}]")), "open", 10, "NULL");
    }
    let scans = "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname IN ('processed', 'dead_letters')";
    let before = bed.database.number(scans);
    assert_eq!(bed.sweep(&purge()).purged, of_orders(50_000 - 199));
    // A session tells what it did when it ends.
    let Bed { database, store } = bed;
    drop(store);
    let told = "SELECT n_tup_del::bigint FROM pg_stat_user_tables WHERE relname = 'processed'";
    let deadline = std::time::Instant::now() + tests::PATIENCE;
    while database.number(told) == 0 {
        assert!(std::time::Instant::now() < deadline, "the session tells nothing");
    }
    assert_eq!(database.number(scans), before);
}
