//! `dead-letters`, from the first look to the last redrive.

use std::sync::atomic::Ordering;

use serde_json::json;
use tests::PATIENCE;
use tests::database::Kind;
use tests::world::World;

use super::jobs::{CARD, Mended, OPERATED, TENANT, work};

/// Two that fail among good ones, and one that has the key of a good one with other content.
fn with_letters(kind: Kind) -> (World, tests::worker::Running, Mended) {
    let world = World::of(kind, OPERATED);
    let mut all: Vec<_> = (0..10).map(|id| work(id, id == 4 || id == 5)).collect();
    all.push(tests::broker::Wire { payload: Some(b"{\"id\":2,\"card\":\"other\"}".to_vec()), ..work(2, false) });
    world.put(&all);
    let mended = Mended::default();
    let job = format!("operated_{kind}");
    let worker = world.work_as([], |builder| builder.jobs([job]).state(mended.clone()));
    world.settled(PATIENCE);
    (world, worker, mended)
}

/// The numbers of the letters of that reason.
fn of(world: &World, reason: &str) -> Vec<String> {
    let told = world.tool(0, &["dead-letters", "list", "--reason", reason, "--json"]);
    told.json().iter().map(|letter| letter["id"].to_string()).collect()
}

fn of_state(world: &World, state: &str) -> Vec<String> {
    let told = world.tool(0, &["dead-letters", "list", "--state", state, "--json"]);
    told.json().iter().map(|letter| letter["id"].to_string()).collect()
}

pub fn are_looked_at_run_again_and_set_aside(kind: Kind) {
    let (world, worker, mended) = with_letters(kind);
    let list = world.tool(0, &["dead-letters", "list"]);
    list.says(&["terminal", "conflict", "operated/0@", "[4]", "the account is unknown\\u{1b}[2J", "JOB"]);
    list.hides(&[CARD, TENANT, "\x1b"]);
    let failed = of(&world, "terminal");
    assert_eq!(failed.len(), 2);
    for arguments in [&["--json"][..], &[]] {
        let all = ["dead-letters", "list", "--limit"];
        let cut = world.tool(0, &[&all[..], &["1"], arguments].concat());
        assert!(cut.err.starts_with("and more: --limit"), "{cut:?}");
        assert_eq!(world.tool(0, &[&all[..], &["3"], arguments].concat()).err, "", "all were listed");
    }
    let conflict = of(&world, "conflict");

    let dry = world.tool(0, &["dead-letters", "redrive", "--all", "--dry-run", "--json"]);
    let would: Vec<_> = dry.json().iter().map(|line| line["would"].clone()).collect();
    assert_eq!(would.iter().filter(|word| **word == "run").count(), 2, "{would:?}");
    assert_eq!(would.iter().filter(|word| **word == "conflict").count(), 1, "{would:?}");
    assert_eq!(world.tool(0, &["dead-letters", "list", "--json"]).json().len(), 3, "nothing was changed");

    let job = format!("operated_{kind}");
    let again = world.tool(1, &["dead-letters", "redrive", "--job", &job, "--reason", "terminal", "--wait=60s"]);
    again.says(&["its handler would be entered", "2 to be run again", "died again (terminal)"]);
    mended.0.store(true, Ordering::SeqCst);
    let well = world.tool(0, &["dead-letters", "redrive", &failed[0], "--wait=60s", "--by", "bea", "--json"]);
    assert_eq!(well.json()[1], json!({ "id": failed[0].parse::<i64>().unwrap(), "ended": "redriven", "error": null }));
    world.tool(1, &["dead-letters", "redrive", &failed[0], "999999"]).says(&["it is redriven", "no such dead letter"]);
    // Looked at first, it is the same.
    for decide in ["redrive", "skip"] {
        let dry = world.tool(1, &["dead-letters", decide, &failed[0], "999999", "--dry-run"]);
        dry.says(&["would be left as it is: it is redriven", "999999  there is no such dead letter"]);
        let dry = world.tool(1, &["dead-letters", decide, &failed[0], "999999", "--dry-run", "--json"]).json();
        assert_eq!((&dry[0]["would"], &dry[1]["would"]), (&json!("stand"), &json!("unknown")), "{dry:?}");
    }
    let shown = world.tool(0, &["dead-letters", "show", &failed[0]]);
    shown.says(&["redriven", "requested by bea", "open by a worker", "kafka key", "payload", "tenant"]);
    shown.says(&["requested by ann@", ": had died: terminal: the account is unknown"]);
    assert_eq!(shown.out.matches("had died").count(), 1, "later ones say so themselves: {shown:?}");
    shown.hides(&[CARD, TENANT]);

    world
        .tool(0, &["dead-letters", "skip", &conflict[0], "--dry-run"])
        .says(&["would be skipped", "nothing was changed"]);
    world.tool(0, &["dead-letters", "skip", &conflict[0]]).says(&["1 skipped"]);
    world.tool(0, &["dead-letters", "redrive", "--all", "--wait"]).says(&["1 to be run again", "redriven"]);
    world.tool(0, &["dead-letters", "redrive", "--all"]).says(&["no dead letter fits"]);
    worker.stop().expect("a clean stop");
    let mut ids = world.database.ids(&job);
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>(), "each once");
}

pub fn sec_payloads_are_shown_on_request_only(kind: Kind) {
    let (world, worker, _) = with_letters(kind);
    worker.stop().expect("a clean stop");
    let id = &of(&world, "terminal")[0];
    let card: String = CARD.bytes().map(|byte| format!("{byte:02x}")).collect();
    let hidden = [CARD, TENANT, card.as_str()];
    for quiet in [
        vec!["dead-letters", "list"],
        vec!["dead-letters", "list", "--json"],
        vec!["dead-letters", "show", id],
        vec!["dead-letters", "show", id, "--json"],
        vec!["dead-letters", "redrive", id, "--dry-run"],
    ] {
        world.tool(0, &quiet).hides(&hidden);
    }
    world.tool(0, &["dead-letters", "show", id, "--payload"]).says(&[CARD, TENANT]);
    world.tool(0, &["dead-letters", "show", id, "--payload", "--json"]).says(&[&card]);
    world.tool(0, &["dead-letters", "export", id]).says(&[&card]);
    let file = std::env::temp_dir().join(tests::database::fresh("export"));
    let path = file.to_str().expect("a temporary folder's name is text");
    world.tool(0, &["dead-letters", "export", "--state", "all", "-o", path]).says(&["3 dead letter(s) written"]);
    assert_eq!(std::fs::read_to_string(&file).expect("it was written").lines().count(), 3);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o600, "payloads are for nobody else to read");
    world.tool(2, &["dead-letters", "export", "-o", path]).says(&["exists"]);
    std::fs::remove_file(file).expect("it can be removed");
}

pub fn that_no_worker_takes_are_waited_for_in_vain(kind: Kind) {
    let (world, worker, _) = with_letters(kind);
    worker.stop().expect("a clean stop");
    let told = world.tool(1, &["dead-letters", "redrive", "--reason", "terminal", "--wait=1s"]);
    told.says(&["still requested", "does a worker of their group run their jobs"]);
    let requested = &of_state(&world, "requested")[0];
    let dry = world.tool(1, &["dead-letters", "redrive", requested, "--dry-run"]);
    dry.says(&["would be left as it is: it is requested"]);
    dry.hides(&["its handler would be entered"]);
    world.tool(1, &["dead-letters", "redrive", requested]).says(&["it is to be run again already"]);
    // Whoever asked first.
    let told = world.tool(1, &["dead-letters", "redrive", requested, "--wait=1s"]);
    told.says(&["it is to be run again already", "still requested"]);
    world.tool(0, &["dead-letters", "skip", requested, "--dry-run"]).says(&["would be skipped"]);
    let conflict = &of(&world, "conflict")[0];
    world.tool(0, &["dead-letters", "skip", conflict]);
    world.tool(0, &["dead-letters", "redrive", conflict]);
    world.tool(0, &["dead-letters", "show", conflict]).says(&["requested by ann@", ": had died: conflict: "]);
}

pub fn are_chosen_before_they_are_changed(kind: Kind) {
    let world = World::of(kind, OPERATED);
    world.tool(2, &["dead-letters", "redrive"]).says(&["say which ones", "--all"]);
    world.tool(2, &["dead-letters", "skip"]).says(&["say which ones", "--all"]);
    world.tool(2, &["dead-letters", "skip", "--all", "--job", "x"]).says(&["leave one of the two out"]);
    world.tool(2, &["dead-letters", "skip", "--state", "all"]).says(&["name a state"]);
    world.tool(2, &["dead-letters", "list", "--state", "dead"]).says(&["`dead` is no state of a dead letter"]);
    world.tool(2, &["dead-letters", "list", "--older-than", "5"]).says(&["`5` is no duration"]);
    world.tool(2, &["dead-letters", "list", "--reason", "exhaust"]).says(&["it is one of: decode,", "exhausted"]);
    // Not the number of another letter.
    world.tool(2, &["dead-letters", "redrive", "1", "--wait", "10"]).says(&["`10` is no duration"]);
    tests::wait_for(idempotent_jobs::outbox::migrate(world.database.url())).expect("the tables can be made");
    // What is named has to be there.
    for arguments in [&["show", "7"][..], &["list", "7"], &["list", "7", "--json"], &["export", "7"]] {
        world.tool(1, &[&["dead-letters"], arguments].concat()).says(&["there is no dead letter 7"]);
    }
    world.tool(1, &["dead-letters", "redrive", "7"]).says(&["there is no such dead letter"]);
    world.tool(2, &["dead-letters", "list", "--limit", "0"]).says(&["0 is not in"]);
    world.tool(0, &["dead-letters", "list"]).says(&["no dead letter fits", "--state all"]);
}
