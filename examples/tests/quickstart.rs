//! The quickstart, run as a user runs it: on what it brings, from another folder.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is not as expected")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const HEADER: &str = "order_id,customer_id,ordered_on,quantity,amount_cents";

/// As built for users; without optimization it may take its time.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 90 });

fn quickstart(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    command.args(arguments).current_dir(std::env::temp_dir());
    for (name, _) in std::env::vars_os() {
        if name == "DATABASE_URL" || name.to_string_lossy().starts_with("KAFKA_") {
            command.env_remove(name);
        }
    }
    command
}

/// The last line of `--json`, after a run that succeeded within its time.
fn totals(command: &mut Command) -> BTreeMap<String, i64> {
    let began = Instant::now();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(began.elapsed() < PATIENCE, "took {:?}", began.elapsed());
    let stdout = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

/// What holds for every run: all is there once, though messages came twice and workers died.
fn assert_exactly_once(totals: &BTreeMap<String, i64>, orders: i64, cents: i64) {
    let expected = BTreeMap::from([
        ("orders", orders),
        ("sent", orders + (orders + 2) / 3),
        ("cents", cents),
        ("lost", 0),
        ("doubled", 0),
    ]);
    let found: BTreeMap<_, _> = expected.keys().map(|name| (*name, totals[*name])).collect();
    assert_eq!(found, expected);
    assert!(totals["kills"] >= 3, "{totals:?}");
    assert!(totals["delivered"] >= totals["sent"], "{totals:?}");
    assert_eq!(totals["duplicates"], totals["delivered"] - totals["orders"], "{totals:?}");
}

/// A file of this test's own, removed when dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("quickstart-test-{}-{name}.csv", std::process::id()));
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn kept() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cdnow-orders.csv")).unwrap()
}

/// The kept orders so many times over, ids of their own each time.
fn many(times: i64) -> String {
    let kept = kept();
    let rows: Vec<(i64, &str)> = kept
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(id, rest)| (id.parse().unwrap(), rest))
        .collect();
    let mut text = HEADER.to_owned();
    for round in 0..times {
        rows.iter().for_each(|(id, rest)| text += &format!("\n{},{rest}", id + round * 10_000));
    }
    text
}

#[test]
fn the_kept_orders_have_their_effects_once() {
    assert_exactly_once(&totals(&mut quickstart(&["--json"])), 6_919, 24_409_194);
}

/// 16 MB of messages, of which the embedded broker keeps 5 MiB a partition.
#[test]
fn ten_times_as_many_orders_do_not_outrun_the_reader() {
    let file = File::new("ten", many(10).as_bytes());
    assert_exactly_once(&totals(&mut quickstart(&["--json", "--csv", file.path()])), 69_190, 244_091_940);
}

#[test]
fn files_of_very_few_orders_see_their_kills_too() {
    for orders in [1, 2, 3, 10] {
        let lines: String = (1..=orders).map(|id| format!("\n{id},7,1997-01-01,1,{}", id * 100)).collect();
        let file = File::new(&format!("few-{orders}"), format!("{HEADER}{lines}").as_bytes());
        let cents = (1..=orders).map(|id| id * 100).sum();
        assert_exactly_once(&totals(&mut quickstart(&["--json", "--csv", file.path()])), orders, cents);
    }
}

/// Two orders that are equal in all but their id are two purchases.
#[test]
fn the_table_is_for_people_and_names_the_same_numbers() {
    let file = File::new("equal", format!("{HEADER}\r\n1,4,1997-01-01,2,2933\r\n2,4,1997-01-01,2,2933\r\n").as_bytes());
    let output = quickstart(&["--csv", file.path()]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{table}");
    for line in [
        "orders                           2",
        "total                        5,866",
        "lost                             0",
    ] {
        assert!(table.contains(line), "no `{line}` in\n{table}");
    }
}

fn refused(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(stdout.is_empty(), "{stdout:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn a_bad_line_is_named_by_its_number_and_nothing_is_sent() {
    let file = File::new(
        "bad",
        format!("{HEADER}\n1,4,1997-01-01,2,2933\n2,4,1997-02-30,2,2933\n3,4,1997-01-01,2,x\n").as_bytes(),
    );
    let said = refused(&mut quickstart(&["--csv", file.path()]));
    assert!(said.contains("nothing was sent"), "{said}");
    assert!(said.contains("line 3: ordered_on `1997-02-30`"), "{said}");
    assert!(said.contains("line 4: amount_cents `x`"), "{said}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    assert!(refused(&mut quickstart(&["--csv", "no-such-orders.csv"])).contains("no-such-orders.csv"));
}

#[test]
fn one_address_without_the_other_is_refused() {
    let said = refused(quickstart(&[]).env("KAFKA_BROKERS", "127.0.0.1:9"));
    assert!(said.contains("KAFKA_BROKERS is set and DATABASE_URL is not"), "{said}");
    let said = refused(quickstart(&[]).env("DATABASE_URL", "postgres://127.0.0.1:9/x"));
    assert!(said.contains("DATABASE_URL is set and KAFKA_BROKERS is not"), "{said}");
}

/// An empty variable is one that is not set.
#[test]
fn the_embedded_default_ignores_variables_meant_for_servers() {
    let file = File::new("env", format!("{HEADER}\n1,4,1997-01-01,2,2933").as_bytes());
    let mut command = quickstart(&["--json", "--csv", file.path()]);
    command.env("KAFKA_BROKERS", "").env("KAFKA_SECURITY_PROTOCOL", "SSL");
    assert_exactly_once(&totals(&mut command), 1, 2933);
}

/// Twice: the second run is not confused by what the first one left.
#[test]
fn the_same_on_the_servers_of_the_environment() {
    let servers = ["KAFKA_BROKERS", "DATABASE_URL"].map(|name| (name, std::env::var(name).unwrap_or_default()));
    if servers.iter().any(|(_, address)| address.is_empty()) {
        eprintln!("NOT SEEN: KAFKA_BROKERS and DATABASE_URL are not set, `tests/run` sets them");
        return;
    }
    for _ in 0..2 {
        let mut command = quickstart(&["--json"]);
        command.envs(servers.iter().map(|(name, address)| (name, address)));
        assert_exactly_once(&totals(&mut command), 6_919, 24_409_194);
    }
}
