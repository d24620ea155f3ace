//! The operator's tool, on the embedded broker and SQLite.

mod operating;

use std::path::Path;
use std::{env, fs};

use tests::database::Kind;
use tests::tool::{told, tool};

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
    "dead-letters export",
    "outbox",
    "outbox list",
    "outbox redrive",
    "outbox discard",
    "outbox replay",
];
