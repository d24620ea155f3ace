//! The operator's tool, on the embedded broker and SQLite.

mod operating;

use std::path::Path;
use std::{env, fs};

use operating::jobs::OPERATED;
use serde_json::json;
use tests::PATIENCE;
use tests::database::Kind;
use tests::tool::{told, tool};
use tests::world::{CRASH, World};

#[test]
fn dead_letters_are_looked_at_run_again_and_set_aside() {
    operating::letters::are_looked_at_run_again_and_set_aside(Kind::Sqlite);
}

#[test]
fn sec_payloads_are_shown_on_request_only() {
    operating::letters::sec_payloads_are_shown_on_request_only(Kind::Sqlite);
}

#[test]
fn dead_letters_that_no_worker_takes_are_waited_for_in_vain() {
    operating::letters::that_no_worker_takes_are_waited_for_in_vain(Kind::Sqlite);
}

#[test]
fn dead_letters_are_chosen_before_they_are_changed() {
    operating::letters::are_chosen_before_they_are_changed(Kind::Sqlite);
}

#[test]
fn records_are_sent_again_or_given_up() {
    operating::outbox::records_are_sent_again_or_given_up(Kind::Sqlite);
}

#[test]
fn a_worker_is_ready_between_its_start_and_its_end() {
    operating::health::a_worker_is_ready_between_its_start_and_its_end(Kind::Sqlite);
}

#[test]
fn a_member_that_gets_no_partition_is_ready_consumer() {
    operating::health::a_member_that_gets_no_partition_is_ready(Kind::Sqlite, "consumer");
}

#[test]
fn the_doctor_looks_and_changes_nothing() {
    operating::doctor::looks_and_changes_nothing(Kind::Sqlite);
}

#[test]
fn the_doctor_says_what_waits_and_what_to_do() {
    operating::doctor::says_what_waits_and_what_to_do(Kind::Sqlite);
}

#[test]
fn the_doctor_finds_a_log_that_was_made_anew() {
    operating::doctor::finds_a_log_that_was_made_anew(Kind::Sqlite);
}

#[test]
fn ded_06_the_doctor_finds_a_table_that_lets_a_key_in_twice() {
    operating::doctor::ded_06_finds_a_table_that_lets_a_key_in_twice(Kind::Sqlite);
}

#[test]
fn the_doctor_finds_an_index_that_is_missing() {
    operating::doctor::finds_an_index_that_is_missing(Kind::Sqlite);
}

#[test]
fn the_doctor_finds_records_that_nobody_sends() {
    operating::doctor::finds_records_that_nobody_sends(Kind::Sqlite);
}

#[test]
fn a_worker_that_starts_logs_what_the_doctor_finds_unless_told_otherwise() {
    let world = World::embedded(CRASH);
    let found = "topic.replicas";
    let child = world.child();
    child.heard(found);
    child.stop();
    let mut command = world.command(world.quick());
    command.env("CHILD_EXAMINE", "off");
    let quiet = world.start(command);
    world.send(0..10);
    world.settled(PATIENCE);
    let source = quiet.source;
    quiet.stop();
    assert!(!world.events.seen().has_said(source, found));
}

#[test]
fn sec_no_password_is_printed() {
    const SECRET: &str = "open-sesame";
    for (url, words) in [
        (format!("postgres://ann:{SECRET}@127.0.0.1:1/jobs"), "127.0.0.1:1"),
        (format!("postgres://ann:{SECRET}@[::1/jobs"), "not of the form"),
        (format!("mysql://ann:{SECRET}@127.0.0.1/jobs"), "of no kind this build knows"),
        (SECRET.to_owned(), "of no kind this build knows"),
    ] {
        let said = told(tool(&["dead-letters", "list"]).env("DATABASE_URL", &url));
        assert_eq!(said.code, 2, "{said:?}");
        said.says(&["error: ", words]);
        said.hides(&[SECRET]);
    }
    let said = told(&mut tool(&["outbox", "list"]));
    assert_eq!(said.code, 2, "{said:?}");
    said.says(&["set `DATABASE_URL`"]);
    let mut command = tool(&["doctor"]);
    command
        .env("DATABASE_URL", format!("postgres://ann:{SECRET}@127.0.0.1:1/jobs"))
        .env("KAFKA_BROKERS", "127.0.0.1:1");
    command
        .env("KAFKA_SASL_PASSWORD", SECRET)
        .env("KAFKA_SSL_KEY_PASSWORD", SECRET)
        .env("KAFKA_SASL_MECHANISM", "PLAIN");
    let said = told(command.env("KAFKA_SECURITY_PROTOCOL", "nonsense"));
    assert_eq!(said.code, 2, "{said:?}");
    said.says(&["database.reach", "127.0.0.1:1", "properties"]);
    said.hides(&[SECRET]);
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let mut command = std::process::Command::new("sh");
    let program = tests::child::program("operator");
    let said = told(command.args(["-c", "{ \"$0\" --help; echo \"ended $?\" >&2; } | true"]).arg(program));
    said.says(&["ended 0"]);
    said.hides(&["panicked"]);
}

/// What a newcomer reads. `UPDATE_SNAPSHOTS=1` writes it anew.
#[test]
fn each_help_is_as_it_was_read() {
    let mut all = String::new();
    for arguments in COMMANDS {
        let arguments: Vec<&str> = arguments.split_whitespace().chain(["--help"]).collect();
        let said = told(&mut tool(&arguments));
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{arguments:?}");
        all += &format!(
            "$ idempotent-jobs {}\n{}\n",
            arguments.join(" "),
            said.out.replace("operator", "idempotent-jobs")
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("operator/help.txt");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &all).expect("the snapshot can be written");
    }
    let kept = fs::read_to_string(&path).expect("there is a snapshot: `UPDATE_SNAPSHOTS=1` writes it");
    assert!(kept == all, "the help changed: read it, and write it anew with `UPDATE_SNAPSHOTS=1`:\n{all}");
}

const COMMANDS: &[&str] = &[
    "",
    "dead-letters",
    "dead-letters list",
    "dead-letters show",
    "dead-letters redrive",
    "dead-letters skip",
    "dead-letters parked",
    "dead-letters export",
    "outbox",
    "outbox list",
    "outbox redrive",
    "outbox discard",
    "outbox replay",
    "doctor",
    "status",
];

#[test]
fn the_status_shows_lag_members_and_what_waits() {
    operating::status::shows_lag_members_and_what_waits(Kind::Sqlite);
}

/// What cannot be looked at is named, and is not well.
#[test]
fn the_status_names_the_partitions_that_it_leaves_out() {
    let world = World::embedded(OPERATED);
    operating::doctor::recorded(&world);
    world.broker.behead(OPERATED.0, 1);
    world.tool(1, &["status", "--interval", "0s"]).says(&["1 partition(s) left out, 1: no broker leads it"]);
    let told = world.tool(1, &["status", "--interval", "0s", "--json"]).json().remove(0);
    let unread = json!([{ "topic": OPERATED.0, "partition": 1, "error": "no broker leads it" }]);
    assert_eq!(told["groups"][0]["unread"], unread, "{told}");
    let told = world.tool(2, &["doctor", "--json"]);
    let what = operating::doctor::finds(&told, "group.progress", "error").to_string();
    assert!(what.contains("of 1 partition(s), 1,"), "{what}");
    told.hides(&["group.history"]);
}

/// Neither is well: there is nothing to tell of.
#[test]
fn the_status_tells_of_a_group_that_nobody_has_and_of_brokers_that_are_away() {
    let world = World::embedded(OPERATED);
    operating::doctor::recorded(&world);
    let status = |group: &str, brokers: &str| {
        let mut command = tool(&["status", "--interval", "0s"]);
        command.env("DATABASE_URL", world.database.url()).env("KAFKA_GROUP_ID", group).env("KAFKA_BROKERS", brokers);
        let said = told(&mut command);
        assert_eq!(said.code, 1, "{said:?}");
        said
    };
    status("nobody", world.broker.servers()).says(&["group nobody: ", "no job of this group ran on the database"]);
    let away = status(&world.group, "127.0.0.1:1");
    away.says(&["brokers: ", "waiting for the database and the brokers"]);
    assert_eq!(away.out.matches("brokers: ").count(), 1, "they are not asked again: {away:?}");
}

#[test]
fn obs_04_a_redrive_goes_on_with_the_trace_of_its_message() {
    operating::trace::obs_04_a_redrive_goes_on_with_the_trace_of_its_message(Kind::Sqlite);
}

#[test]
fn a_full_lane_is_shown_by_all_with_the_letter_to_decide_on() {
    operating::parked::a_full_lane_is_shown_by_all_with_the_letter_to_decide_on(Kind::Sqlite);
}

#[test]
fn tables_of_another_version_are_left_alone() {
    operating::parked::tables_of_another_version_are_left_alone(Kind::Sqlite);
}

#[test]
fn db_lost_history_is_found_before_and_noticed_after_a_worker_reads_it_again() {
    operating::parked::lost_history_is_found_before_and_noticed_after_a_worker_reads_it_again(Kind::Sqlite);
}
