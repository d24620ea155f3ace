//! A worker killed at each point of a message's life: real Kafka and PostgreSQL.

use tests::crash::run;
use tests::database::Kind;

/// DB-04 is in here: the connection is lost during COMMIT, before and after the server has it.
#[test]
fn nothing_is_lost_or_done_twice_wherever_the_process_is_struck() {
    let table = run(Kind::Postgres, "crash", 5, |row| println!("{row}"));
    assert!(table.is_good(), "{table:#?}");
}
