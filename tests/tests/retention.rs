//! Retention on SQLite. PostgreSQL and Kafka are in `real_retention.rs`.

mod purging;

use idempotent_jobs::Retention;
use purging::HOUR;
use tests::database::Kind;
use tests::worker::words;
use tests::world::{CRASH, World};

#[test]
fn ded_04_only_what_is_old_and_below_the_committed_offset_goes() {
    purging::store::only_what_is_old_and_below_the_committed_offset_goes(Kind::Sqlite);
}

#[test]
fn ded_05_keys_of_dead_letters_stay_until_they_are_redriven() {
    purging::store::keys_of_dead_letters_stay_until_they_are_redriven(Kind::Sqlite);
}

#[test]
fn key_01_keys_of_a_job_that_was_ever_shared_stay() {
    purging::store::keys_of_a_job_that_was_ever_shared_stay(Kind::Sqlite);
}

#[test]
fn db_16_a_large_table_is_walked_through_in_small_steps() {
    purging::store::a_large_table_is_walked_through_in_small_steps(Kind::Sqlite);
}

#[test]
fn db_16_a_group_that_was_swept_rests() {
    purging::store::a_group_that_was_swept_rests(Kind::Sqlite);
}

#[test]
fn db_16_two_cleaners_at_once_purge_each_key_once() {
    purging::store::two_cleaners_at_once_purge_each_key_once(Kind::Sqlite);
}

#[test]
fn ded_04_the_oldest_of_what_may_come_again_is_found() {
    purging::store::the_oldest_of_what_may_come_again_is_found(Kind::Sqlite);
}

#[test]
fn ded_04_what_the_database_does_not_know_as_settled_stays() {
    purging::store::what_the_database_does_not_know_as_settled_stays(Kind::Sqlite);
}

#[test]
fn ded_04_the_watermark_is_told_how_far_the_purge_went() {
    purging::store::the_watermark_is_told_how_far_the_purge_went(Kind::Sqlite);
}

/// Nobody knows how long a topic can deliver a message again whose settings cannot be read. The embedded broker tells nothing.
#[test]
fn ded_04_a_topic_whose_settings_cannot_be_read_is_refused() {
    let world = World::embedded(CRASH);
    let job = ["purged_sqlite"];
    let error = world.work_as(job, |builder| builder.retention(Retention::window(1_000 * HOUR))).fails();
    words(&error, &["did not start", "retention: topic `crash`", "its settings cannot be read", "keep them forever"]);
    let kept = world.work_as(job, |builder| builder.retention(Retention::forever()));
    world.put(&[tests::broker::Wire { payload: Some(br#"{"id":1}"#.to_vec()), ..Default::default() }]);
    world.settled(tests::PATIENCE);
    kept.stop().expect("a clean stop");
}
