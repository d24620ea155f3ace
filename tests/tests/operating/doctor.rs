//! `doctor`: what it finds, and that it changes nothing.

use serde_json::Value;
use tests::PATIENCE;
use tests::database::Kind;
use tests::tool::Told;
use tests::world::World;

use super::jobs::{CARD, Mended, OPERATED, work};

/// The finding of a check, if there is one of that severity.
fn found<'a>(told: &'a [Value], check: &str, severity: &str) -> Option<&'a Value> {
    told.iter().find(|finding| finding["check"] == check && finding["severity"] == severity)
}

pub fn finds(told: &Told, check: &str, severity: &str) -> Value {
    let findings = told.json();
    found(&findings, check, severity).unwrap_or_else(|| panic!("no {severity} of {check}: {findings:#?}")).clone()
}

pub fn looks_and_changes_nothing(kind: Kind) {
    let world = World::of(kind, OPERATED);
    let first = world.tool(1, &["doctor", "--json"]);
    finds(&first, "tables.version", "warning");
    finds(&first, "brokers.reach", "ok");
    let again = world.tool(1, &["doctor", "--json"]);
    finds(&again, "tables.version", "warning");
}

pub fn says_what_waits_and_what_to_do(kind: Kind) {
    let world = World::of(kind, OPERATED);
    world.put(&[work(1, true), work(2, false)]);
    let job = format!("operated_{kind}");
    let worker = world.work_as([], |builder| builder.jobs([job.clone()]).state(Mended::default()));
    world.settled(PATIENCE);
    let told = world.tool(1, &["doctor", "--json"]);
    assert_eq!(
        finds(&told, "dead_letters.open", "warning")["advice"],
        "`idempotent-jobs dead-letters list` shows them"
    );
    for well in ["tables.version", "tables.sound", "tables.indexes", "topic.exists", "group.progress", "outbox.backlog"]
    {
        finds(&told, well, "ok");
    }
    told.hides(&[CARD]);
    let text = world.tool(1, &["doctor", "--quiet"]);
    text.says(&[
        "warning  dead_letters.open: ",
        "         -> `idempotent-jobs dead-letters list` shows them",
        "topic.replicas",
    ]);
    text.hides(&["tables.version", CARD]);
    worker.stop().expect("a clean stop");
}

/// A job of the group is recorded, as if it had run.
pub fn recorded(world: &World) {
    tests::wait_for(idempotent_jobs::outbox::migrate(world.database.url())).expect("the tables can be made");
    let table = if world.database.kind == Kind::Sqlite { "idempotent_jobs_jobs" } else { "idempotent_jobs.jobs" };
    world.database.run(&format!(
        "INSERT INTO {table} (name, \"group\", topic, key_form, scheme) VALUES ('some', '{}', '{}', '-', '-')",
        world.group, OPERATED.0
    ));
}

pub fn finds_a_log_that_was_made_anew(kind: Kind) {
    let world = World::of(kind, OPERATED);
    recorded(&world);
    let ends = world.broker.ends(OPERATED.0, OPERATED.1);
    world.broker.rewind(&world.group, OPERATED.0, &[ends[0] + 5, ends[1]]);
    let told = world.tool(2, &["doctor", "--json"]);
    let what = finds(&told, "group.progress", "error").to_string();
    assert!(what.contains("partition 0") && what.contains("was made anew"), "{what}");
    finds(&told, "group.members", "warning");
}

pub fn ded_06_finds_a_table_that_lets_a_key_in_twice(kind: Kind) {
    let world = World::of(kind, OPERATED);
    tests::wait_for(idempotent_jobs::outbox::migrate(world.database.url())).expect("the tables can be made");
    finds(&world.tool(1, &["doctor", "--json"]), "tables.sound", "ok");
    match kind {
        Kind::Postgres => world.database.run(
            "ALTER TABLE idempotent_jobs.processed DROP CONSTRAINT processed_pkey; \
             CREATE UNIQUE INDEX by_time ON idempotent_jobs.processed (job, key, processed_at)",
        ),
        Kind::Sqlite => world.database.run(
            "CREATE TABLE other (job TEXT, key TEXT, processed_at TEXT, PRIMARY KEY (job, key, processed_at)); \
             DROP TABLE idempotent_jobs_processed; ALTER TABLE other RENAME TO idempotent_jobs_processed",
        ),
    }
    let told = world.tool(2, &["doctor", "--json"]);
    let what = finds(&told, "tables.sound", "error")["what"].to_string();
    assert!(what.contains("unique index on exactly (job, key)"), "{what}");
}

pub fn finds_an_index_that_is_missing(kind: Kind) {
    let world = World::of(kind, OPERATED);
    tests::wait_for(idempotent_jobs::outbox::migrate(world.database.url())).expect("the tables can be made");
    let name = if kind == Kind::Postgres { "idempotent_jobs.outbox_ready" } else { "idempotent_jobs_outbox_ready" };
    world.database.run(&format!("DROP INDEX {name}"));
    let told = world.tool(2, &["doctor", "--json"]);
    assert!(finds(&told, "tables.indexes", "error")["what"].to_string().contains("outbox_ready"));
}

pub fn finds_records_that_nobody_sends(kind: Kind) {
    let world = super::outbox::with_records(kind);
    let told = world.tool(1, &["doctor", "--json"]);
    finds(&told, "outbox.set_aside", "warning");
    world.tool(0, &["outbox", "redrive", "operated"]);
    let told = world.tool(2, &["doctor", "--json"]);
    assert!(finds(&told, "outbox.backlog", "error")["what"].to_string().contains("no relay runs"));
}
