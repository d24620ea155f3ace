//! Messages that die, on the embedded broker and SQLite. PostgreSQL is in `real_dead_letters.rs`.

mod dying;

use tests::database::Kind;

#[test]
fn con_10_each_bad_message_among_good_ones_is_one_dead_letter() {
    for form in ["single", "shared"] {
        dying::poison::each_bad_one_is_one_dead_letter(Kind::Sqlite, form);
    }
}

#[test]
fn dlt_02_killed_between_dead_letter_and_offset_a_message_is_not_run_behind_its_back() {
    dying::kills::a_message_that_died_comes_again_and_is_not_run_behind_its_letters_back(Kind::Sqlite);
}

#[test]
fn ded_05_a_redrive_that_is_killed_runs_once_in_the_end() {
    dying::kills::a_redrive_that_is_killed_runs_once_in_the_end(Kind::Sqlite);
}

#[test]
fn ded_05_redrives_are_shared_by_workers_and_each_runs_once() {
    dying::poison::redrives_are_shared_by_workers_and_each_runs_once(Kind::Sqlite);
}

#[test]
fn dlt_02_many_that_died_are_passed_over_in_bulk() {
    dying::kills::messages_that_died_are_passed_over_in_bulk(Kind::Sqlite);
}

#[test]
fn dlt_01_a_copy_of_each_dead_letter_goes_to_a_topic() {
    dying::copies::a_copy_of_each_dead_letter_goes_to_a_topic(Kind::Sqlite);
}
