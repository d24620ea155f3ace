//! The operator's tool, on Kafka and PostgreSQL.

mod operating;

use idempotent_jobs::health::Health;
use operating::doctor::finds;
use operating::health;
use operating::jobs::{Mended, OPERATED, work};
use tests::PATIENCE;
use tests::database::Kind;
use tests::proxy::Proxy;
use tests::world::World;

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

#[test]
fn a_worker_is_ready_between_its_start_and_its_end() {
    operating::health::a_worker_is_ready_between_its_start_and_its_end(Kind::Postgres);
}

#[test]
fn a_member_that_gets_no_partition_is_ready_consumer() {
    operating::health::a_member_that_gets_no_partition_is_ready(Kind::Postgres, "consumer");
}

#[test]
fn a_member_that_gets_no_partition_is_ready_classic() {
    operating::health::a_member_that_gets_no_partition_is_ready(Kind::Postgres, "classic");
}

#[test]
fn a_database_that_is_away_makes_a_worker_not_ready_and_not_dead() {
    let world = World::real(OPERATED);
    let proxy = Proxy::to(world.database.url());
    let (url, health) = (proxy.url(world.database.url()), Health::new());
    let worker = health::work(&world, &health, |builder| builder.database_url(url));
    health::becomes(&world, &health, |words| words.is_empty());
    proxy.cut();
    health::becomes(&world, &health, |words| words.contains(&"database_away"));
    health.live().expect("a restart would not help");
    proxy.mend();
    health::becomes(&world, &health, |words| words.is_empty());
    worker.stop().expect("a clean stop");
}

#[test]
fn the_doctor_looks_and_changes_nothing() {
    operating::doctor::looks_and_changes_nothing(Kind::Postgres);
}

#[test]
fn the_doctor_says_what_waits_and_what_to_do() {
    operating::doctor::says_what_waits_and_what_to_do(Kind::Postgres);
}

#[test]
fn the_doctor_finds_a_log_that_was_made_anew() {
    operating::doctor::finds_a_log_that_was_made_anew(Kind::Postgres);
}

#[test]
fn ded_06_the_doctor_finds_a_table_that_lets_a_key_in_twice() {
    operating::doctor::ded_06_finds_a_table_that_lets_a_key_in_twice(Kind::Postgres);
}

#[test]
fn the_doctor_finds_an_index_that_is_missing() {
    operating::doctor::finds_an_index_that_is_missing(Kind::Postgres);
}

#[test]
fn the_doctor_finds_records_that_nobody_sends() {
    operating::doctor::finds_records_that_nobody_sends(Kind::Postgres);
}

#[test]
fn the_doctor_knows_settings_that_do_harm() {
    let world = World::real(OPERATED);
    tests::wait_for(idempotent_jobs::outbox::migrate(world.database.url())).expect("the tables can be made");
    let told = world.tool(1, &["doctor", "--json"]);
    for well in ["database.version", "database.clock"] {
        finds(&told, well, "ok");
    }
    world.database.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); \
         EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); \
         EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$",
    );
    let told = world.tool(1, &["doctor", "--json"]);
    for warned in ["database.isolation", "database.durability", "database.read_only"] {
        finds(&told, warned, "warning");
    }
}

#[test]
fn the_doctor_reads_the_settings_of_topics() {
    let world = World::real(OPERATED);
    world.put(&[work(1, false)]);
    let worker = world.work_as(["operated_postgres"], |builder| builder.state(Mended::default()));
    world.settled(PATIENCE);
    let told = world.tool(1, &["doctor", "--json"]);
    let kept = finds(&told, "topic.cleanup", "ok")["what"].to_string();
    assert!(kept.contains("messages are kept for 168 h, dated by CreateTime"), "{kept}");
    assert!(finds(&told, "group.members", "ok")["what"].to_string().contains("1 member(s)"), "{told:?}");
    worker.stop().expect("a clean stop");
}

#[test]
fn the_status_shows_lag_members_and_what_waits() {
    operating::status::shows_lag_members_and_what_waits(Kind::Postgres);
}

#[test]
fn obs_04_a_redrive_goes_on_with_the_trace_of_its_message() {
    operating::trace::obs_04_a_redrive_goes_on_with_the_trace_of_its_message(Kind::Postgres);
}

#[test]
fn a_full_lane_is_shown_by_all_with_the_letter_to_decide_on() {
    operating::parked::a_full_lane_is_shown_by_all_with_the_letter_to_decide_on(Kind::Postgres);
}

#[test]
fn tables_of_another_version_are_left_alone() {
    operating::parked::tables_of_another_version_are_left_alone(Kind::Postgres);
}

#[test]
fn db_lost_history_is_found_before_and_noticed_after_a_worker_reads_it_again() {
    operating::parked::lost_history_is_found_before_and_noticed_after_a_worker_reads_it_again(Kind::Postgres);
}

#[test]
fn keys_that_are_missing_make_a_worker_not_ready() {
    operating::parked::keys_that_are_missing_make_a_worker_not_ready(Kind::Postgres);
}
