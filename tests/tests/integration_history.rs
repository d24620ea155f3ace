//! Lost history on the embedded broker and SQLite. Offsets cannot be set there from outside.

mod history;

use tests::database::Kind;

#[test]
fn a_database_put_back_loses_nothing_and_does_nothing_twice() {
    history::put_back(Kind::Sqlite, &[("group.protocol", "consumer")]);
}

#[test]
fn a_database_put_back_is_noticed_by_members_of_the_classic_protocol() {
    history::put_back(Kind::Sqlite, &[("session.timeout.ms", "3000"), ("heartbeat.interval.ms", "300")]);
}

#[test]
fn a_copy_that_knows_nothing_of_the_partitions_reads_all_again() {
    history::forgotten(Kind::Sqlite);
}

#[test]
fn a_kill_between_the_watermark_and_the_offset_is_no_lost_history() {
    history::killed_between(Kind::Sqlite);
}
