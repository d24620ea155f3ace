//! Messages that die, on Kafka and PostgreSQL. SQLite is in `integration_dead_letters.rs`.

mod dying;

use std::time::Duration;

use dying::jobs::{DYING, Mended};
use dying::poison::{does, good, sorted};
use idempotent_jobs::__private::Point;
use tests::PATIENCE;
use tests::database::Kind;
use tests::proxy::Proxy;
use tests::world::World;

#[test]
fn con_10_each_bad_message_among_good_ones_is_one_dead_letter() {
    for form in ["single", "shared"] {
        dying::poison::each_bad_one_is_one_dead_letter(Kind::Postgres, form);
    }
}

#[test]
fn dlt_01_a_message_that_dies_while_the_database_is_away_keeps_its_offset() {
    let world = World::real(DYING);
    let proxy = Proxy::to(world.database.url());
    let offsets = world.put(&[good(0), does(4, "late"), good(8)]);
    let url = proxy.url(world.database.url());
    let mended = Mended::default();
    let worker = world.work_as(["single_postgres"], |builder| builder.database_url(url).state(mended.clone()));
    let source = worker.source;
    world.events.wait_count(source, Point::Claimed, 3);
    proxy.cut();
    mended.late.notify_one();
    // The outage itself, not a wait for anything.
    world.events.wait_briefly(Duration::from_secs(4), |seen| seen.has_ended(source));
    assert!(world.letters().is_empty());
    assert!(world.broker.committed(&world.group, DYING.0, DYING.1)[0] <= offsets[1], "its offset stays");
    proxy.mend();
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(world.letter().reason, "terminal");
    assert_eq!(sorted(&world, "single_postgres"), [0, 8]);
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

#[test]
fn dlt_02_many_that_died_are_passed_over_in_bulk() {
    dying::kills::messages_that_died_are_passed_over_in_bulk(Kind::Postgres);
}

#[test]
fn dlt_01_a_copy_of_each_dead_letter_goes_to_a_topic() {
    dying::copies::a_copy_of_each_dead_letter_goes_to_a_topic(Kind::Postgres);
}

#[test]
fn ded_05_a_conflict_is_no_duplicate_once_compare_has_changed() {
    dying::poison::a_conflict_is_no_duplicate_once_compare_has_changed(Kind::Postgres);
}
