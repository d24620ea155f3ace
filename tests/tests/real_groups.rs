//! Shared transactions and batch jobs on real Kafka and PostgreSQL. SQLite is in `integration_groups.rs`.

mod groups;

use groups::duplicates::contend;
use groups::failing::{Culprit, is_given_up};
use groups::scene::{Scene, message};
use idempotent_jobs::__private::Point;
use serde_json::json;
use tests::PATIENCE;
use tests::database::Kind;
use tests::world::{CRASH, World};

groups::cases!(Kind::Postgres);

#[test]
fn a_shared_transaction_is_one_transaction() {
    for form in ["shared", "batch"] {
        let scene = Scene::new(Kind::Postgres);
        scene.send(&(0..100).map(message).collect::<Vec<_>>());
        let source = scene.work_off(&[form]);
        scene.assert_done(source, 100);
        assert_eq!(scene.sorted(form), (0..100).collect::<Vec<_>>());
        assert_eq!(scene.world.database.number("SELECT count(DISTINCT xmin::text) FROM effects"), 1, "{form}");
    }
}

/// PostgreSQL refuses every statement after it, the neighbours' among them.
#[test]
fn db_01_a_swallowed_error_fails_its_own_message_only() {
    let reason = &["reason exhausted", "42P01", "there_is_no_such_table"];
    let culprit = Culprit { does: "swallow", calls: 4, reason };
    is_given_up(Kind::Postgres, "shared", &culprit);
    is_given_up(Kind::Postgres, "batch", &culprit);
}

/// Passing trouble of the database has no culprit and costs no attempt.
#[test]
fn db_09_a_group_that_the_database_could_not_serialize_runs_one_by_one() {
    for does in ["serialization", "deadlock"] {
        for form in ["shared", "batch"] {
            let scene = Scene::new(Kind::Postgres);
            let failing = message(3).doing(does, 2);
            scene.send(&[message(1), message(2), failing, message(4), message(5)]);
            let source = scene.work_off(&[form]);
            scene.assert_tried(source, 5);
            assert_eq!(scene.sorted(form), [1, 2, 3, 4, 5], "{does}");
            for id in 1..=5 {
                let attempts = scene.attempts(form, id);
                assert!(attempts.iter().all(|attempt| *attempt == 1), "{does}, {form}: {id} was charged: {attempts:?}");
            }
        }
    }
}

/// Every conflict is the database's own, of claims and of rows.
#[test]
fn db_09_serializable_groups_that_contend_have_each_effect_once() {
    contend(Kind::Postgres, "strict");
}

#[test]
fn a_setting_of_one_is_not_seen_by_its_neighbours() {
    for does in ["set_local", "set_config"] {
        let scene = Scene::new(Kind::Postgres);
        let mut messages: Vec<_> = (0..20).map(message).collect();
        messages[5] = message(5).doing(does, usize::MAX);
        scene.send(&messages);
        let source = scene.work_off(&["shared"]);
        scene.assert_tried(source, 20);
        scene.assert_done(source, 1);
        assert_eq!(scene.sorted("shared"), (0..20).collect::<Vec<_>>());
        let seen: Vec<_> = scene.log.calls().into_iter().filter(|call| call.tenant.is_some()).collect();
        assert_eq!(seen, [], "{does}");
        let transactions = scene.world.database.number("SELECT count(DISTINCT xmin::text) FROM effects");
        assert_eq!(transactions, 20, "{does}: the job runs alone from here on");
    }
}

/// Each transaction holds the locks of many partition keys; they are taken in one order.
#[test]
fn out_01_records_of_shared_transactions_do_not_deadlock() {
    const MESSAGES: i64 = 2_000;
    for form in ["shared", "batch"] {
        let scene = Scene::new(Kind::Postgres);
        let tells = |id: i64| message(id).on((id % 2) as i32).doing(&format!("tell {id}"), usize::MAX);
        scene.send(&(0..MESSAGES).map(tells).collect::<Vec<_>>());
        let worker = scene.work_beside(&[form], 8);
        scene.world.settled(PATIENCE);
        worker.stop().expect("a clean stop");
        assert_eq!(scene.sorted(form), (0..MESSAGES).collect::<Vec<_>>());
        let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        assert_eq!(scene.world.database.number(deadlocks), 0, "{form}");
        let told: usize =
            scene.log.calls().iter().filter(|call| call.job != "gate_postgres").map(|call| call.ids.len()).sum();
        assert_eq!(told, MESSAGES as usize, "{form}: nothing was undone");
    }
}

/// The claims of neighbours that have not run yet must not outlive the process.
#[test]
fn db_02_a_process_that_dies_after_a_foreign_commit_leaves_nothing() {
    let world = World::real(CRASH);
    world.send(0..20);
    world.send_doing([100], &json!("commit_and_die"));
    world.send(200..220);
    let mut command = world.command(world.quick());
    command.env("CHILD_JOB", "shared_postgres").env("CHILD_CONCURRENCY", "1");
    let child = world.start(command);
    let source = child.source;
    let status = child.ended(PATIENCE);
    assert!(!status.success());
    let seen_together = |seen: &tests::events::Seen| {
        let own = seen.events.iter().filter(|event| event.source == source);
        own.map(|event| event.point).collect::<Vec<_>>().chunk_by(|one, other| one == other).map(<[_]>::len).max()
    };
    let most = seen_together(&world.events.seen());
    assert!(most >= Some(2), "the process died in company: {most:?}\n{}", world.events.seen().describe());
    assert!(world.events.seen().has_said(source, "COMMIT round it: refused"), "{}", world.events.seen().describe());
    let orphans = "SELECT count(*) FROM idempotent_jobs.processed p WHERE p.job = 'shared_postgres' AND NOT EXISTS \
        (SELECT FROM effects e WHERE e.place = p.topic || '/' || p.partition || '@' || p.\"offset\")";
    assert_eq!(world.database.number(orphans), 0, "a claim without its effect");
    assert_eq!(world.database.number("SELECT count(*) FROM effects WHERE id = 100"), 0);

    let mut command = world.command(world.quick());
    command.env("CHILD_JOB", "shared_postgres").env("CHILD_GOOD", "1");
    let good = world.start(command);
    world.settled(PATIENCE);
    good.stop();
    world.assert_once();
}

/// The operator is told why a job no longer shares.
#[test]
fn a_job_that_disturbs_its_neighbours_says_that_it_runs_alone() {
    let world = World::real(CRASH);
    world.send_doing(0..40, &json!("set_local"));
    let mut command = world.command(world.quick());
    command.env("CHILD_JOB", "shared_postgres").env("CHILD_CONCURRENCY", "1");
    let child = world.start(command);
    world.settled(PATIENCE);
    child.heard("share no transaction, since it changed the rest of the transaction");
    child.stop();
    world.assert_once();
}

#[test]
fn what_was_done_before_a_crash_is_found_in_bulk() {
    const MESSAGES: i64 = 2_000;
    for form in ["single", "shared", "batch"] {
        let scene = Scene::new(Kind::Postgres);
        let world = &scene.world;
        let before = world.broker.committed(&world.group, "groups", 2);
        scene.send(&(0..MESSAGES).map(|id| message(id).on((id % 2) as i32)).collect::<Vec<_>>());
        scene.work_off(&[form]);
        let calls = scene.log.calls().len();

        world.broker.rewind(&world.group, "groups", &before);
        let transactions = || {
            let ended = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
            world.database.number(ended)
        };
        let was = transactions();
        let worker = scene.work(&[form]);
        let source = worker.source;
        world.events.wait_count(source, Point::Skipped, MESSAGES as usize);
        worker.stop().expect("a clean stop");
        let took = transactions() - was;
        println!("{form}: {MESSAGES} duplicates in {took} transactions");
        assert!(took < MESSAGES / 4, "{form}: {took} transactions for {MESSAGES} duplicates");
        assert_eq!(world.events.seen().count(source, Point::Claimed), 0, "{form}");
        assert_eq!(scene.log.calls().len(), calls, "{form}: no handler is entered");
        assert_eq!(scene.sorted(form), (0..MESSAGES).collect::<Vec<_>>(), "{form}");
    }
}
