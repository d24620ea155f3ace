//! `outbox`, from what was set aside to what is sent again.

use idempotent_jobs::outbox::{enqueue, migrate};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tests::database::Kind;
use tests::wait_for;
use tests::world::World;

use super::jobs::{CARD, OPERATED, Work};

pub fn with_records(kind: Kind) -> World {
    let world = World::of(kind, OPERATED);
    let url = world.database.url();
    let all = (0..3).map(|id| Work { id, fails: false, tells: false, card: CARD.to_owned() });
    wait_for(async {
        migrate(url).await.expect("the tables can be made");
        for work in all {
            match kind {
                Kind::Sqlite => {
                    let mut conn = SqliteConnection::connect(url).await.expect("the database opens");
                    enqueue(&mut conn, &work).await.expect("it can be enqueued");
                }
                Kind::Postgres => {
                    let mut conn = PgConnection::connect(url).await.expect("the database opens");
                    enqueue(&mut conn, &work).await.expect("it can be enqueued");
                }
            }
        }
    });
    let table = if kind == Kind::Sqlite { "idempotent_jobs_outbox" } else { "idempotent_jobs.outbox" };
    world.database.run(&format!("UPDATE {table} SET state = 'failed', attempts = 10, last_error = 'too large'"));
    world
}

pub fn records_are_sent_again_or_given_up(kind: Kind) {
    let world = with_records(kind);
    let list = world.tool(0, &["outbox", "list"]);
    list.says(&["operated", "[0]", "[2]", "too large", "TRIES"]);
    list.hides(&[CARD]);
    list.hides(&["and more"]);
    let two = world.tool(0, &["outbox", "list", "--json", "--limit", "2"]);
    assert_eq!((two.json().len(), &two.json()[1]["key"]), (2, &serde_json::json!("[1]")));
    assert_eq!(two.err, "and more: --limit\n");
    world.tool(2, &["outbox", "discard", "operated"]).says(&["what is discarded is gone", "--all"]);
    world.tool(0, &["outbox", "redrive", "operated", "--key", "[0]", "--dry-run"]).says(&["1 record(s) fit"]);
    world.tool(0, &["outbox", "discard", "operated", "--all", "--dry-run"]).says(&["3 record(s) fit"]);
    world.tool(0, &["outbox", "redrive", "elsewhere", "--dry-run"]).says(&["0 record(s) fit"]);
    world.tool(1, &["outbox", "discard", "operated", "--key", "[9]", "--dry-run"]).says(&["0 record(s) fit"]);
    world.tool(0, &["outbox", "redrive", "operated", "--key", "[0]"]).says(&["1 record(s) to be sent again"]);
    world.tool(1, &["outbox", "redrive", "operated", "--key", "[0]"]).says(&["no such record"]);
    world.tool(0, &["outbox", "discard", "operated", "--key", "[1]"]).says(&["1 record(s) given up"]);
    world.tool(0, &["outbox", "discard", "operated", "--all", "--json"]).says(&["{\"records\":1}"]);
    world.tool(0, &["outbox", "list"]).says(&["no record is set aside"]);
    world.tool(1, &["outbox", "replay", "operated", "[0]"]).says(&["no such record"]);
}
