//! The operator's tool, on Kafka and PostgreSQL.

mod operating;

use tests::database::Kind;

#[test]
fn dead_letters_are_looked_at_run_again_and_set_aside() {
    operating::letters::are_looked_at_run_again_and_set_aside(Kind::Postgres);
}

#[test]
fn sec_payloads_are_shown_on_request_only() {
    operating::letters::sec_payloads_are_shown_on_request_only(Kind::Postgres);
}

#[test]
fn dead_letters_that_no_worker_takes_are_waited_for_in_vain() {
    operating::letters::that_no_worker_takes_are_waited_for_in_vain(Kind::Postgres);
}

#[test]
fn dead_letters_are_chosen_before_they_are_changed() {
    operating::letters::are_chosen_before_they_are_changed(Kind::Postgres);
}

#[test]
fn records_are_sent_again_or_given_up() {
    operating::outbox::records_are_sent_again_or_given_up(Kind::Postgres);
}
