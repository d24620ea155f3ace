//! The short programs, run.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is not as expected")]

use std::process::{Command, Output};

use idempotent_jobs::embedded::Broker;

fn program(path: &str) -> Command {
    let mut command = Command::new(path);
    for name in ["DATABASE_URL", "KAFKA_BROKERS", "KAFKA_GROUP_ID"] {
        command.env_remove(name);
    }
    command
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn state_bills_each_parcel_once() {
    let lines = said(program(env!("CARGO_BIN_EXE_state")).output().unwrap());
    let expected = [
        r#"shipped: A1 for 490 cents, key ["A1"], offset 0, 0 retries"#,
        r#"shipped: B2 for 490 cents, key ["B2"], offset 2, 0 retries"#,
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn batch_stores_many_readings_by_one_statement() {
    let line = said(program(env!("CARGO_BIN_EXE_batch")).output().unwrap());
    let statements = line.strip_prefix("24 readings by ").and_then(|rest| rest.strip_suffix(" statements\n"));
    let statements: u32 = statements.expect(&line).parse().unwrap();
    assert!(statements < 24, "{line}");
}

#[test]
fn producer_only_needs_no_database() {
    let broker = Broker::start(&[("orders", 1)]).unwrap();
    for offset in 0..2 {
        let mut command = program(env!("CARGO_BIN_EXE_producer_only"));
        let output = command.args(["1", "2933"]).env("KAFKA_BROKERS", broker.bootstrap_servers()).output().unwrap();
        assert_eq!(said(output), format!("order 1 is in partition 0 at offset {offset}\n"));
    }
}

/// Without its environment it says all that is missing.
#[test]
fn charge_names_what_it_needs() {
    let output = program(env!("CARGO_BIN_EXE_charge")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    for name in ["DATABASE_URL", "KAFKA_BROKERS", "KAFKA_GROUP_ID"] {
        assert!(said.contains(name), "no {name} in {said}");
    }
}
