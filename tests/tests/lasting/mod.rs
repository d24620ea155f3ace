//! Attempts that outlive their process, and messages that kill theirs. What does not depend on the database is
//! played on both.

pub mod counts;
pub mod killers;

use tests::database::Kind;
use tests::world::World;

/// How many rows a table of ours has.
pub fn left(world: &World, table: &str) -> i64 {
    let table = match world.database.kind {
        Kind::Sqlite => format!("idempotent_jobs_{table}"),
        Kind::Postgres => format!("idempotent_jobs.{table}"),
    };
    world.database.number(&format!("SELECT count(*) FROM {table}"))
}
