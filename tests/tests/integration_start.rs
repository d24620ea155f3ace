//! What keeps a worker from starting: every problem at once, each saying what to do.

use std::process::{Command, Stdio};

use idempotent_jobs::prelude::*;
use serde::Deserialize;
use tests::PATIENCE;
use tests::child;
use tests::database::fresh;
use tests::worker::words;
use tests::world::{Topic, World};

const PARCELS: Topic = ("parcels", 1);

#[derive(Clone)]
struct Mailer;

#[derive(Debug, Deserialize)]
struct Parcel {
    parcel: u64,
}

#[idempotent_job(topic = "parcels", key = "parcel")]
async fn plain(_tx: &mut SqliteTx, parcel: Parcel) -> JobResult {
    println!("{}", parcel.parcel);
    Ok(())
}

#[idempotent_job(topic = "absent", key = "parcel")]
async fn reads_absent(_tx: &mut SqliteTx, _: Parcel, State(_): State<Mailer>) -> JobResult {
    Ok(())
}

#[idempotent_job(topic = "parcels", key = "parcel")]
async fn for_postgres(_tx: &mut PgTx, _: Parcel) -> JobResult {
    Ok(())
}

/// Runs a program of this package in this world; its code and what it said.
fn refused(program: &str, world: &World) -> String {
    let mut command = child::command(program);
    command.env("DATABASE_URL", world.database.url()).env("KAFKA_BROKERS", world.broker.servers());
    fails(command.env("KAFKA_GROUP_ID", "parcels"))
}

fn fails(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(!output.status.success(), "it must not start");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn contains(text: &str, expected: &[&str]) {
    for words in expected {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
}

#[test]
fn mac_01_a_program_without_jobs_is_refused_and_told_how() {
    let world = World::embedded(PARCELS);
    contains(&refused("no_jobs", &world), &["no job is linked", "use my_jobs as _;", "expect_jobs"]);
}

#[test]
fn mac_01_an_expected_job_that_the_linker_dropped_is_named() {
    let world = World::embedded(PARCELS);
    contains(&refused("distant_forgotten", &world), &["the expected job `distant`", "use my_jobs as _;"]);
}

#[test]
fn mac_01_jobs_of_a_crate_that_is_named_once_run() {
    let world = World::embedded(PARCELS);
    let mut command = child::command("distant_linked");
    command.env("DATABASE_URL", world.database.url()).env("KAFKA_BROKERS", world.broker.servers());
    command.env("KAFKA_GROUP_ID", "parcels").env("KAFKA_GROUP_PROTOCOL", "consumer");
    let child = world.start(command);
    world.put(&[tests::broker::Wire { payload: Some(br#"{"parcel":1}"#.to_vec()), ..Default::default() }]);
    // It tells no events: that its claim is there shows that it runs.
    let claimed = || world.database.number("SELECT count(*) FROM sqlite_master WHERE name LIKE '%processed'") == 1;
    let done = || claimed() && world.database.number("SELECT count(*) FROM idempotent_jobs_processed") == 1;
    let deadline = std::time::Instant::now() + PATIENCE;
    while !world.events.wait_briefly(std::time::Duration::from_millis(50), |_| done()) {
        assert!(std::time::Instant::now() < deadline, "the job does not run\n{}", world.events.seen().describe());
    }
    child.stop();
}

#[test]
fn ded_03_two_jobs_of_one_name_are_refused() {
    let world = World::embedded(PARCELS);
    contains(&refused("same_names", &world), &["two jobs are called `handle`", "name = "]);
}

#[test]
fn all_problems_are_reported_together() {
    let world = World::embedded(PARCELS);
    let worker = world.work_as(["reads_absent", "for_postgres"], |builder| {
        let builder = builder.property("enable.auto.commit", "true").property("no.such.property", "1");
        builder.expect_jobs(["vanished"])
    });
    let error = worker.fails();
    words(&error, &["did not start", "::Mailer`", "`vanished`", "enable.auto.commit", "no.such.property"]);
    words(&error, &["`for_postgres` takes `&mut PgTx`", "SQLite"]);
}

#[test]
fn a_missing_topic_and_a_missing_state_are_reported_together() {
    let world = World::embedded(PARCELS);
    let error = world.work(["plain", "reads_absent"]).fails();
    words(&error, &["`absent`", "Mailer", ".state("]);
}

#[test]
fn con_03_properties_that_the_promise_rests_on_are_refused() {
    for (name, value) in [("enable.auto.commit", "true"), ("enable.auto.offset.store", "true")] {
        let world = World::embedded(PARCELS);
        let error = world.work_as(["plain"], |builder| builder.property(name, value)).fails();
        words(&error, &["did not start", name]);
    }
}

#[test]
fn a_database_and_brokers_that_do_not_answer_are_reported_together() {
    let world = World::embedded(PARCELS);
    // Nobody listens on a port that was just given back.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let nobody = socket.local_addr().expect("a bound port has a number");
    drop(socket);
    let missing = std::env::temp_dir().join(fresh("no-such-folder")).join("jobs.sqlite");
    let worker = world.work_as(["plain"], |builder| {
        builder.brokers(nobody.to_string()).database_url(format!("sqlite://{}", missing.display()))
    });
    let error = worker.fails();
    words(&error, &["the database cannot be used", &nobody.to_string()]);
}

#[test]
fn a_postgresql_that_does_not_answer_is_reported() {
    let world = World::embedded(PARCELS);
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let nobody = socket.local_addr().expect("a bound port has a number");
    drop(socket);
    let url = format!("postgres://someone:secret@{nobody}/jobs");
    let error = world.work_as(["for_postgres"], |builder| builder.database_url(url)).fails();
    words(&error, &["did not start", "the database cannot be used"]);
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn another_group_that_claims_a_jobs_name_is_refused() {
    let world = World::embedded(PARCELS);
    let first = world.work(["plain"]);
    world.put(&[tests::broker::Wire { payload: Some(br#"{"parcel":1}"#.to_vec()), ..Default::default() }]);
    world.settled(PATIENCE);
    let error = world.work_as(["plain"], |builder| builder.group_id("another-team")).fails();
    words(&error, &["plain", "another-team", &world.group]);
    let shared = world.work_as(["plain"], |builder| builder.group_id("another-team").share_job("plain"));
    world.events.wait_count(shared.source, idempotent_jobs::__private::Point::Skipped, 1);
    shared.stop().expect("a clean stop");
    first.stop().expect("a clean stop");
}
