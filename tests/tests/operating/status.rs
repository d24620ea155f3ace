//! `status`: how far the work is.

use serde_json::json;
use tests::PATIENCE;
use tests::database::Kind;
use tests::world::World;

use super::jobs::{CARD, Mended, OPERATED, work};

pub fn shows_lag_members_and_what_waits(kind: Kind) {
    let world = World::of(kind, OPERATED);
    world.put(&(0..10).map(|id| work(id, id == 4)).collect::<Vec<_>>());
    let job = format!("operated_{kind}");
    let worker = world.work_as([], |builder| builder.jobs([job]).state(Mended::default()));
    world.settled(PATIENCE);
    let told = world.tool(0, &["status", "--interval", "1s"]);
    // librdkafka's broker knows nothing of members.
    let members = if kind == Kind::Postgres { "1 member(s), Stable" } else { "members unknown" };
    told.says(&["group ", members, "LAG", "DONE/S", "operated", "dead letters: 1 (the oldest for", "1 relay(s)"]);
    told.hides(&[CARD, "\x1b"]);
    worker.stop().expect("a clean stop");

    world.put(&(10..17).map(|id| work(id, false)).collect::<Vec<_>>());
    let told = world.tool(0, &["status", "--interval", "0s", "--json"]).json().remove(0);
    let group = &told["groups"][0];
    assert_eq!(group["group"], json!(world.group), "{told}");
    assert_eq!(group["topics"][0]["lag"], 7, "{told}");
    assert_eq!(group["members"], if kind == Kind::Postgres { json!(0) } else { json!(null) }, "{told}");
    assert_eq!(told["database"]["dead_letters"]["open"]["rows"], 1);
}
