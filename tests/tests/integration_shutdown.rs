//! SIGTERM, on the embedded broker and SQLite: SHUT-01, SHUT-02.

use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use serde_json::json;
use tests::PATIENCE;
use tests::world::{CRASH, World};

fn slow(millis: u64) -> serde_json::Value {
    json!({ "slow": millis })
}

#[test]
fn shut_01_a_running_job_finishes_and_what_is_queued_is_not_started() {
    let world = World::embedded(CRASH);
    let child = world.child();
    world.send_doing((0..6).map(|n| n * 2), &slow(1_500));
    let source = child.source;
    world.events.wait_count(source, Point::Claimed, 1);
    child.stop();
    assert_eq!(world.database.ids("crash_sqlite"), [0], "the running one finished, no other was started");
    assert_eq!(world.broker.committed(&world.group, "crash", 2)[0], 1, "the finished prefix is committed");

    let mut command = world.command(world.quick());
    command.env("CHILD_GOOD", "1");
    let next = world.start(command);
    world.settled(PATIENCE);
    next.stop();
    world.assert_once();
    assert_eq!(world.skipped(), 0, "nothing that was finished came again");
}

#[test]
fn shut_01_a_job_over_the_budget_is_rolled_back_and_comes_again() {
    let world = World::embedded(CRASH);
    let mut command = world.command(world.quick());
    command.env("CHILD_SHUTDOWN_MS", "300");
    let child = world.start(command);
    world.send_doing([0], &slow(20_000));
    let source = child.source;
    world.events.wait_count(source, Point::Claimed, 1);
    child.terminate();
    let asked = Instant::now();
    let status = child.ended(PATIENCE);
    assert!(asked.elapsed() < Duration::from_secs(15), "it ended within the budget, not when the job was done");
    assert!(!status.success(), "work was left undone, and the code says so");
    assert!(world.events.seen().has_said(source, "did not finish within"), "{}", world.events.seen().describe());
    assert_eq!(world.database.ids("crash_sqlite"), [0; 0]);

    let mut command = world.command(world.quick());
    command.env("CHILD_GOOD", "1");
    let next = world.start(command);
    world.settled(PATIENCE);
    next.stop();
    world.assert_once();
}

fn ends_without_brokers(runtime: &str) {
    let world = World::embedded(CRASH);
    let mut command = world.command(world.quick());
    command.env("CHILD_RUNTIME", runtime);
    let child = world.start(command);
    world.send(0..10);
    world.settled(PATIENCE);
    let World { broker, database: _database, events, .. } = world;
    drop(broker);
    child.terminate();
    let source = child.source;
    let asked = Instant::now();
    child.ended(Duration::from_secs(50));
    println!("{runtime}: ended {:?} after SIGTERM\n{}", asked.elapsed(), events.seen().describe());
    assert!(events.seen().has_ended(source));
}

#[test]
fn shut_02_the_process_ends_also_when_no_broker_answers() {
    ends_without_brokers("multi_thread");
}

#[test]
fn shut_02_the_process_ends_without_brokers_on_one_thread() {
    ends_without_brokers("current_thread");
}

/// A signal during the checks ends the process by itself, without an error and before the checks'
/// own deadline.
#[test]
fn shut_01_a_signal_during_the_start_is_heard() {
    let world = World::embedded(CRASH);
    // Accepts, and never answers: the checks of the start last until their own deadline.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut command = world.command(&[]);
    command.env("KAFKA_BROKERS", silent.local_addr().expect("a bound port has a number").to_string());
    let child = world.start(command);
    let (asked, checks) = channel();
    thread::spawn(move || asked.send(silent.accept()));
    let connection = checks.recv_timeout(PATIENCE).expect("the start asks the brokers");
    child.terminate();
    let asked = Instant::now();
    let status = child.ended(PATIENCE);
    drop(connection);
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(asked.elapsed() < Duration::from_secs(8), "the checks were waited for: {:?}", asked.elapsed());
}
