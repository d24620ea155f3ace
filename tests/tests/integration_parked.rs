//! Lanes that are parked, on the embedded broker and SQLite. PostgreSQL is in `real_parked.rs`.

#[allow(dead_code, reason = "each database plays what it can")]
mod parking;

use parking::{bounds, kills, order, owners};
use tests::database::Kind::Sqlite as KIND;

#[test]
fn ret_01_the_later_ones_wait_for_a_middle_one_and_are_done_in_order() {
    for form in parking::scene::FORMS {
        order::the_later_ones_wait_for_a_middle_one_and_are_done_in_order(KIND, form);
    }
}

#[test]
fn ret_01_who_is_assigned_later_knows_of_the_lane() {
    for form in parking::scene::FORMS {
        order::who_is_assigned_later_knows_of_the_lane(KIND, form);
    }
}

#[test]
fn ret_01_a_skipped_head_lets_the_next_go_and_one_that_fails_again_holds_the_rest() {
    order::a_skipped_head_lets_the_next_go_and_one_that_fails_again_holds_the_rest(KIND);
}

#[test]
fn ret_01_what_need_not_be_run_is_not_parked() {
    order::what_need_not_be_run_is_not_parked(KIND);
}

#[test]
fn ret_01_what_cannot_be_read_holds_its_lane_and_what_has_no_kafka_key_holds_nobody() {
    order::what_cannot_be_read_holds_its_lane_and_what_has_no_kafka_key_holds_nobody(KIND);
}

#[test]
fn ret_01_another_job_of_the_topic_goes_on() {
    order::another_job_of_the_topic_goes_on(KIND);
}

#[test]
fn ret_01_a_partition_waits_as_a_whole() {
    order::a_partition_waits_as_a_whole(KIND);
}

#[test]
fn con_20_the_next_message_of_a_full_lane_waits_and_the_other_lanes_go_on() {
    bounds::the_next_message_of_a_full_lane_waits_and_the_other_lanes_go_on(KIND);
}

#[test]
fn ret_01_killed_anywhere_a_lane_keeps_its_order() {
    kills::killed_anywhere_a_lane_keeps_its_order(KIND);
}

#[test]
fn con_08_a_lane_is_done_in_order_by_two_who_both_believe_to_own_it() {
    for (form, seed) in parking::scene::FORMS.into_iter().zip(1..) {
        owners::a_lane_is_done_in_order_by_two_who_both_believe_to_own_it(KIND, form, seed);
    }
}

#[test]
fn con_08_what_is_taken_with_one_that_died_elsewhere_does_not_run_ahead() {
    for form in parking::scene::FORMS {
        owners::what_is_taken_with_one_that_died_elsewhere_does_not_run_ahead(KIND, form);
    }
}

#[test]
fn ret_01_a_released_one_has_all_attempts_of_its_job() {
    order::a_released_one_has_all_attempts_of_its_job(KIND);
}
