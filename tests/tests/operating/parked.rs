//! Lanes that wait, tables of another version, and history that does not fit.

use idempotent_jobs::health::Health;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::Wire;
use tests::database::Kind;
use tests::world::World;

use super::doctor::finds;
use super::health::{becomes, words};
use super::jobs::{CARD, Mended, OPERATED, work};

/// In the lane of one Kafka message key.
fn lined(id: i64, fails: bool) -> Wire {
    Wire { partition: 0, key: Some(b"one".to_vec()), ..work(id, fails) }
}

pub fn a_full_lane_is_shown_by_all_with_the_letter_to_decide_on(kind: Kind) {
    let world = World::of(kind, OPERATED);
    world.put(&[lined(1, true), lined(2, false), lined(3, false), lined(4, false)]);
    let (job, health) = (format!("lined_{kind}"), Health::new());
    let worker =
        world.work_as([], |builder| builder.jobs([job.clone()]).state(Mended::default()).health(health.clone()));
    becomes(&world, &health, |words| words == ["lane_full"]);

    let lanes = world.tool(0, &["dead-letters", "parked", "--json"]).json();
    assert_eq!((lanes.len(), &lanes[0]["waiting"], &lanes[0]["full"]), (1, &json!(2), &json!(true)));
    let head = lanes[0]["behind"].to_string();
    let table = world.tool(0, &["dead-letters", "parked"]);
    table.says(&["BEHIND", &head, "2 FULL", &job, "operated/0"]);
    table.hides(&[CARD]);
    let found = finds(&world.tool(2, &["doctor", "--json"]), "dead_letters.parked", "error");
    assert!(found["what"].to_string().contains("a lane is full: 2 message(s)"), "{found}");
    assert!(found["advice"].to_string().contains(&format!("`idempotent-jobs dead-letters skip {head}`")), "{found}");
    let status = world.tool(0, &["status", "--interval", "0s"]);
    status.says(&[
        "parked: 2 message(s) in 1 lane(s), the oldest for ",
        "; FULL: 1",
        &format!("wait behind dead letter {head}"),
    ]);
    let status = world.tool(0, &["status", "--interval", "0s", "--json"]).json().remove(0);
    assert_eq!(status["database"]["parked"]["first"][0]["behind"].to_string(), head, "{status}");

    world.tool(0, &["dead-letters", "skip", &head]);
    let parked = if kind == Kind::Sqlite { "idempotent_jobs_parked" } else { "idempotent_jobs.parked" };
    let lanes = format!("SELECT count(*) FROM {parked}");
    // Those behind it are run one after the other.
    becomes(&world, &health, |words| words.is_empty() && world.database.number(&lanes) == 0);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    world.tool(0, &["dead-letters", "parked"]).says(&["no message waits behind a dead letter"]);
}

pub fn tables_of_another_version_are_left_alone(kind: Kind) {
    let world = World::of(kind, OPERATED);
    let commands: [&[&str]; 3] = [&["dead-letters", "list"], &["dead-letters", "parked"], &["outbox", "list"]];
    let refused = |words: &str| {
        commands.iter().for_each(|command| world.tool(2, command).says(&["error: ", words]));
        let status = world.tool(2, &["status", "--interval", "0s"]);
        status.says(&["database: ", words]);
    };
    refused("there are no tables of idempotent-jobs in it");
    finds(&world.tool(1, &["doctor", "--json"]), "tables.version", "warning");
    tests::wait_for(idempotent_jobs::outbox::migrate(world.database.url())).expect("the tables can be made");
    world.tool(0, &["dead-letters", "parked"]);
    let table = if kind == Kind::Sqlite { "idempotent_jobs_migrations" } else { "idempotent_jobs.migrations" };
    let last = world.database.number(&format!("SELECT CAST(max(version) AS BIGINT) FROM {table}"));
    world.database.run(&format!("UPDATE {table} SET version = version + 1 WHERE version = {last}"));
    refused(&format!("of version {}, newer than this program knows ({last})", last + 1));
    world.database.run(&format!("DELETE FROM {table} WHERE version > {}", last - 1));
    refused(&format!("of version {}, and this tool is for version {last}", last - 1));
    assert_eq!(world.database.number(&format!("SELECT count(*) FROM {table}")), last - 1, "nothing was migrated");
}

pub fn lost_history_is_found_before_and_noticed_after_a_worker_reads_it_again(kind: Kind) {
    let world = World::of(kind, OPERATED);
    world.put(&(0..10).map(|id| work(id, false)).collect::<Vec<_>>());
    let (job, health) = (format!("operated_{kind}"), Health::new());
    let start = |health: &Health| {
        world.work_as([], |builder| builder.jobs([job.clone()]).state(Mended::default()).health(health.clone()))
    };
    let worker = start(&health);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    assert_eq!(health.notices(), []);
    finds(&world.tool(1, &["doctor", "--json"]), "group.history", "ok");

    let table = if kind == Kind::Sqlite { "idempotent_jobs_watermarks" } else { "idempotent_jobs.watermarks" };
    // The marks of transactions take offsets too.
    let end = world.broker.committed(&world.group, OPERATED.0, OPERATED.1)[0];
    let lost = format!("offset {end} was committed");
    world.database.run(&format!("UPDATE {table} SET \"offset\" = 2 WHERE \"partition\" = 0"));
    let found = finds(&world.tool(2, &["doctor", "--json"]), "group.history", "error");
    assert!(found["what"].to_string().contains(&format!("{lost}, and it knows only what is below 2")), "{found}");
    world.tool(0, &["status", "--interval", "0s"]).says(&["(lost_history)"]);

    let health = Health::new();
    let worker = start(&health);
    becomes(&world, &health, |_| !health.notices().is_empty());
    let again = format!("SELECT \"offset\" FROM {table} WHERE \"partition\" = 0");
    becomes(&world, &health, |words| words.is_empty() && world.database.number(&again) == end);
    worker.stop().expect("a clean stop");
    let notices = health.notices();
    assert_eq!((notices.len(), notices[0].finding, notices[0].partition), (1, "lost_history", 0), "{notices:?}");
    assert!(notices[0].what.contains(&lost), "{notices:?}");
    finds(&world.tool(1, &["doctor", "--json"]), "group.history", "ok");
}

/// librdkafka's broker lets nobody set the offsets of a group that had members.
#[allow(dead_code, reason = "it needs real servers")]
pub fn keys_that_are_missing_make_a_worker_not_ready(kind: Kind) {
    let world = World::of(kind, OPERATED);
    world.put(&(0..10).map(|id| work(id, false)).collect::<Vec<_>>());
    let (job, health) = (format!("operated_{kind}"), Health::new());
    let start = |health: &Health| {
        world.work_as([], |builder| builder.jobs([job.clone()]).state(Mended::default()).health(health.clone()))
    };
    let worker = start(&health);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    let table = if kind == Kind::Sqlite { "idempotent_jobs_watermarks" } else { "idempotent_jobs.watermarks" };
    world.database.run(&format!("UPDATE {table} SET purged_to = 5 WHERE \"partition\" = 0"));
    world.broker.rewind(&world.group, OPERATED.0, &[1, 5]);
    let found = finds(&world.tool(2, &["doctor", "--json"]), "group.history", "error");
    assert!(found["advice"].to_string().contains("set the group's offset to 5 or above"), "{found}");
    let health = Health::new();
    let worker = start(&health);
    becomes(&world, &health, |words| words.contains(&"missing_keys"));
    worker.fails();
    assert_eq!(words(&health), ["ended", "missing_keys"]);
}
