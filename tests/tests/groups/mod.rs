//! Shared transactions and batch jobs, end to end. What does not depend on the database is
//! played on both.

pub mod crashes;
pub mod duplicates;
pub mod failing;
pub mod jobs;
pub mod order;
pub mod scene;

/// A test of each case that is the same on every database.
macro_rules! cases {
    ($kind:expr) => {
        groups::cases! { $kind =>
            duplicates: ded_02_copies_within_a_group_have_one_effect;
            duplicates: ded_01_copies_of_one_that_fails_wait_for_it;
            duplicates: ded_02_other_content_within_a_group_is_a_dead_letter_and_loses_nothing;
            duplicates: ded_02_a_group_is_given_only_what_is_new;
            duplicates: ded_11_groups_that_contend_for_keys_and_rows_have_each_effect_once;
            crashes: a_process_struck_down_within_a_group_loses_and_doubles_nothing;
            failing: bat_01_two_of_five_fail_and_each_has_its_own_outcome;
            failing: bat_01_two_of_five_fail_once_and_all_are_done;
            failing: con_10_a_message_that_cannot_be_read_in_the_middle_of_a_group;
            failing: db_02_a_handler_that_ends_the_shared_transaction_fails_alone;
            failing: db_02_a_handler_that_leaves_a_savepoint_open_fails_alone;
            failing: db_07_a_constraint_that_fails_at_commit_singles_nobody_out;
            failing: db_07_a_handler_that_hangs_fails_alone;
            failing: db_07_a_handler_that_panics_fails_alone;
            failing: db_07_an_error_within_a_savepoint_keeps_the_group_together;
            failing: db_07_one_of_a_batch_that_violates_a_constraint_costs_the_others_nothing;
            failing: db_07_one_of_a_hundred_that_violates_a_constraint_costs_the_others_nothing;
            failing: db_07_one_that_is_given_up_leaves_its_neighbours_done;
            failing: db_07_those_that_take_too_long_together_run_alone;
            order: ded_03_jobs_of_every_kind_on_one_topic_see_each_message_once;
            order: ret_01_a_partitions_order_is_kept_when_one_of_a_group_fails;
            order: ret_01_messages_without_a_kafka_key_wait_for_none;
            order: ret_01_those_behind_a_failed_one_of_their_key_wait_and_the_others_go_on;
            order: ret_01_without_an_order_none_waits_and_each_runs_once;
        }
    };
    ($kind:expr => $($module:ident: $name:ident;)+) => {
        $(
            #[test]
            fn $name() {
                groups::$module::$name($kind);
            }
        )+
    };
}
pub(crate) use cases;
