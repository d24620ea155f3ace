//! Attempts that outlive their process, on the embedded broker and SQLite. PostgreSQL is in `real_attempts.rs`.

mod lasting;

use tests::database::Kind;

#[test]
fn con_10_a_message_that_aborts_its_process_is_one_dead_letter() {
    lasting::killers::a_message_that_kills_its_process_is_found(Kind::Sqlite, "abort");
}

#[test]
fn con_10_a_message_that_overflows_the_stack_is_one_dead_letter() {
    lasting::killers::a_message_that_kills_its_process_is_found(Kind::Sqlite, "overflow");
}

#[test]
fn con_10_a_message_that_takes_all_memory_is_one_dead_letter() {
    lasting::killers::a_message_that_kills_its_process_is_found(Kind::Sqlite, "exhaust");
}

#[test]
fn con_10_a_message_that_kills_by_being_read_is_one_dead_letter() {
    lasting::killers::a_message_that_kills_by_being_read_is_found(Kind::Sqlite);
}
