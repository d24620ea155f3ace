//! Handlers that break the rules, on SQLite: DB-01 and DB-02. PostgreSQL is in `real_misbehaviour.rs`.

use serde_json::json;
use tests::PATIENCE;
use tests::database::Kind;
use tests::misbehaviour::{endings, play};
use tests::world::{CRASH, World};

#[test]
fn db_02_what_a_handler_that_ends_its_transaction_did_is_undone_and_a_dead_letter() {
    for mischief in endings() {
        play(Kind::Sqlite, &mischief);
    }
}

/// SQLite has no aborted transaction: what failed undid itself alone, and the rest commits.
#[test]
fn db_01_a_swallowed_error_leaves_the_rest_of_the_handlers_work() {
    let world = World::embedded(CRASH);
    world.send(0..4);
    world.send_doing([100], &json!("swallow"));
    let child = world.child();
    world.settled(PATIENCE);
    child.heard("swallowed true");
    child.kill();
    let restarted = world.child();
    world.send(200..204);
    world.settled(PATIENCE);
    restarted.stop();
    world.assert_once();
}
