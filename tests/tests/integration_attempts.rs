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

#[test]
fn con_10_a_killer_in_a_shared_transaction_is_one_dead_letter() {
    lasting::killers::a_killer_in_a_shared_transaction_is_found(Kind::Sqlite);
}

#[test]
fn con_10_each_of_several_killers_is_one_dead_letter() {
    lasting::killers::each_of_several_killers_is_found(Kind::Sqlite);
}

#[test]
fn shut_01_twenty_kills_accuse_nobody() {
    lasting::killers::kills_accuse_nobody(Kind::Sqlite);
}

#[test]
fn ret_01_a_restart_does_not_count_attempts_anew() {
    lasting::counts::a_restart_does_not_count_anew(Kind::Sqlite);
}

#[test]
fn ret_01_a_kill_does_not_make_attempts_count_anew() {
    lasting::counts::a_kill_does_not_make_attempts_count_anew(Kind::Sqlite);
}

#[test]
fn ret_01_a_snooze_survives_its_process() {
    lasting::counts::a_snooze_survives_its_process(Kind::Sqlite, false);
}

#[test]
fn ret_01_a_snooze_survives_a_kill() {
    lasting::counts::a_snooze_survives_its_process(Kind::Sqlite, true);
}

#[test]
fn what_goes_well_is_not_noted() {
    lasting::counts::what_goes_well_is_not_noted(Kind::Sqlite);
}

#[test]
fn ded_05_a_redrive_that_kills_its_process_is_the_same_letter_again() {
    lasting::killers::a_redrive_that_kills_its_process_is_found(Kind::Sqlite, "abort");
}

#[test]
fn ded_05_a_redrive_that_kills_by_being_read_is_the_same_letter_again() {
    lasting::killers::a_redrive_that_kills_its_process_is_found(Kind::Sqlite, "abort_reader");
}
