//! Handlers that break the rules, on PostgreSQL: DB-01 and DB-02. SQLite is in `integration_misbehaviour.rs`.

use serde_json::json;
use tests::database::Kind;
use tests::misbehaviour::{Mischief, endings, play};

#[test]
fn db_02_what_a_handler_that_ends_its_transaction_did_is_undone_and_a_dead_letter() {
    for mischief in endings() {
        play(Kind::Postgres, &mischief);
    }
}

/// PostgreSQL would answer COMMIT with a silent ROLLBACK. The attempt fails instead, is made
/// again, and when attempts are used up the message is a dead letter.
#[test]
fn db_01_a_swallowed_error_fails_the_attempt_and_is_never_skipped() {
    play(Kind::Postgres, &Mischief { does: json!("swallow"), reason: "exhausted" });
}
