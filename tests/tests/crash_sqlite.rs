//! A worker killed at each point of a message's life: embedded broker and SQLite.

use tests::crash::run;
use tests::database::Kind;

#[test]
fn nothing_is_lost_or_done_twice_wherever_the_process_is_struck() {
    let table = run(Kind::Sqlite, "crash", 5, |row| println!("{row}"));
    assert!(table.is_good(), "{table:#?}");
}
