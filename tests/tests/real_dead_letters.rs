//! Messages that die, on Kafka and PostgreSQL. SQLite is in `integration_dead_letters.rs`.

mod dying;

use tests::database::Kind;

#[test]
fn con_10_each_bad_message_among_good_ones_is_one_dead_letter() {
    for form in ["single", "shared"] {
        dying::poison::each_bad_one_is_one_dead_letter(Kind::Postgres, form);
    }
}

#[test]
fn dlt_01_a_message_that_dies_while_the_database_is_away_keeps_its_offset() {
    dying::poison::the_database_is_away_while_a_message_dies();
}

#[test]
fn dlt_02_killed_between_dead_letter_and_offset_a_message_is_not_run_behind_its_back() {
    dying::kills::a_message_that_died_comes_again_and_is_not_run_behind_its_letters_back(Kind::Postgres);
}

#[test]
fn ded_05_a_redrive_that_is_killed_runs_once_in_the_end() {
    dying::kills::a_redrive_that_is_killed_runs_once_in_the_end(Kind::Postgres);
}

#[test]
fn ded_05_redrives_are_shared_by_workers_and_each_runs_once() {
    dying::poison::redrives_are_shared_by_workers_and_each_runs_once(Kind::Postgres);
}
