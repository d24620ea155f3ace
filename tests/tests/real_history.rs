//! Lost history on real Kafka and PostgreSQL.

mod history;

use tests::database::Kind;

#[test]
fn a_database_put_back_is_noticed_with_eager_assignment() {
    history::put_back(Kind::Postgres, &[("group.instance.id", "one")]);
}

#[test]
fn a_database_put_back_is_noticed_with_cooperative_assignment() {
    history::put_back(
        Kind::Postgres,
        &[("group.instance.id", "one"), ("partition.assignment.strategy", "cooperative-sticky")],
    );
}

#[test]
fn a_database_put_back_is_noticed_with_the_consumer_protocol() {
    history::put_back(Kind::Postgres, &[("group.protocol", "consumer")]);
}

#[test]
fn a_copy_that_knows_nothing_of_the_partitions_reads_all_again() {
    history::forgotten(Kind::Postgres);
}

#[test]
fn a_database_that_is_replaced_under_a_running_worker_loses_nothing() {
    history::replaced(&[("group.instance.id", "one")], true);
}

#[test]
fn a_database_that_is_replaced_under_a_running_worker_loses_nothing_by_the_consumer_protocol() {
    history::replaced(&[("group.protocol", "consumer")], true);
}

#[test]
fn a_database_that_is_replaced_under_an_idle_worker_is_noticed() {
    history::replaced(&[("group.instance.id", "one")], false);
}

#[test]
fn a_kill_between_the_watermark_and_the_offset_is_no_lost_history() {
    history::killed_between(Kind::Postgres);
}

#[test]
fn ded_a_group_set_back_meets_its_claims_unless_they_were_purged() {
    history::set_back();
}

#[test]
fn a_group_that_a_person_moved_ahead_goes_on_there() {
    history::moved_ahead();
}

#[test]
fn ded_expired_offsets_are_known_from_the_watermarks() {
    history::expired();
}

#[test]
fn a_topic_made_anew_is_read_from_its_start() {
    history::made_anew(20);
}

#[test]
fn a_topic_made_anew_and_filled_beyond_the_old_one_is_read_from_its_start() {
    history::made_anew(400);
}

#[test]
fn a_database_that_is_replaced_between_two_jobs_of_a_message_loses_neither() {
    history::replaced_between_two_jobs();
}

#[test]
fn a_database_that_is_replaced_again_and_again_under_load_loses_nothing() {
    history::replaced_under_load(&[("group.instance.id", "one")]);
}

#[test]
fn a_database_that_is_replaced_again_and_again_under_load_loses_nothing_by_the_consumer_protocol() {
    history::replaced_under_load(&[("group.protocol", "consumer")]);
}

#[test]
fn a_worker_killed_and_its_database_put_back_again_and_again_lose_nothing() {
    history::killed_and_put_back();
}

#[test]
fn a_stop_without_a_database_commits_nothing_that_is_not_recorded() {
    history::stopped_without_database();
}
