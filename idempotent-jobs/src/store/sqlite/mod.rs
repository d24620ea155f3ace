//! SQLite, one writer connection a process.

mod answers;
mod attempts;
mod claim;
mod claims;
mod enqueue;
mod fault;
mod guard;
mod inspect;
mod letters;
mod migrate;
mod open;
mod operate;
mod parked;
mod register;
mod relay;
mod retention;
mod session;
mod watermarks;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteError};
use sqlx::{Error, Executor, SqlStr, Sqlite, SqliteConnection};

pub(in crate::store) use self::inspect::{inspect, marks, standing};
pub use self::migrate::migrations_sql;
pub use self::operate::SqliteOperate;
pub use self::relay::SqliteRelay;
pub use self::retention::SqliteRetention;
use super::dialect::{Broken, Chain, Dialect};
use super::enqueue::Waiting;
use super::outcome::Stored;
use super::register::{Highest, Recorded};
use super::statement::Syntax;
use super::{Claim, Fault, JobRow, SqlStore, StoreError, Terms, Tx};
use crate::outgoing::Outgoing;

/// The transaction of one attempt on SQLite, lent to the handler.
///
/// SQLite has no aborted state: a statement that fails undoes itself alone, and a handler that
/// returns `Ok(())` all the same commits the rest.
pub type SqliteTx = Tx<Sqlite>;

/// Claims and transactions on SQLite.
pub type SqliteStore = SqlStore<Sqlite>;

// One isolation level, so no `IsolationLevels`.

impl Dialect for Sqlite {
    const HANDLE: &'static str = "SqliteTx";
    const DATABASE: &'static str = "SQLite";
    // A transaction holds the only write lock. Whoever waits for it looks now and then, and would
    // never find it free.
    const CHAINS: bool = false;
    // By its hooks; COMMIT takes the savepoint with it.
    const WATCHES: bool = true;
    const SYNTAX: Syntax = Syntax::Sqlite;
    const STARTING: &'static str = migrate::STARTING;
    type Guard = guard::Guard;
    type Failure = SqliteError;

    // SQLite lets one connection write at a time: a second one would only wait, and unfairly.
    fn width(_: usize) -> usize {
        1
    }

    async fn open(url: &str) -> Result<SqliteConnectOptions, StoreError> {
        open::open(url).await
    }

    async fn prepare(conn: &mut SqliteConnection) -> Result<guard::Guard, StoreError> {
        session::prepare(conn).await
    }

    async fn run(conn: &mut SqliteConnection, sql: String) -> Result<(), Error> {
        conn.execute(sqlx::AssertSqlSafe(sql)).await.map(drop)
    }

    async fn count(conn: &mut SqliteConnection, sql: SqlStr, done: &mut Vec<u64>) -> Result<(), Error> {
        let mut ends = conn.execute_many(sql);
        while let Some(end) = ends.try_next().await? {
            done.push(end.rows_affected());
        }
        Ok(())
    }

    fn opening(terms: &Terms, mark: &str, settled: bool) -> String {
        session::opening(terms, mark, settled)
    }

    // The commit hook seals every transaction from the start.
    fn sealing(_: &str) -> Option<String> {
        None
    }

    fn closing(guard: &guard::Guard, mark: &str, sealed: bool, settle: Option<Duration>) -> String {
        guard::closing(guard, mark, sealed, settle).join("; ")
    }

    fn chain(_: &guard::Guard, _: &str, _: Option<Duration>) -> Option<Chain> {
        None
    }

    fn permit(guard: &guard::Guard, commit: bool) {
        guard.permit(commit);
    }

    async fn commit(conn: &mut SqliteConnection) -> Result<(), Error> {
        conn.execute("COMMIT").await.map(drop)
    }

    fn begun(guard: &guard::Guard) {
        guard.begun();
    }

    fn ended(guard: &guard::Guard) -> bool {
        guard.ended()
    }

    fn broken(error: &dyn DatabaseError) -> Broken {
        guard::broken(error)
    }

    fn proves_rollback(error: &dyn DatabaseError) -> bool {
        guard::proves_rollback(error)
    }

    fn fault(error: &SqliteError) -> Fault {
        fault::fault(error)
    }

    fn held(error: &SqliteError) -> bool {
        fault::held(error)
    }

    fn stale(error: &dyn DatabaseError) -> bool {
        fault::stale(error)
    }

    async fn insert(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<bool, Error> {
        claim::insert(conn, claim).await
    }

    async fn open_and_insert(
        conn: &mut SqliteConnection,
        opening: &str,
        claim: &Claim<'_>,
    ) -> Result<bool, (Error, bool)> {
        claim::open_and_insert(conn, opening, claim).await
    }

    // Nothing is chained.
    fn inserting(_: &Claim<'_>, _: &Terms) -> Option<[String; 3]> {
        None
    }

    async fn look(conn: &mut SqliteConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
        claim::look(conn, claim).await
    }

    async fn insert_all(conn: &mut SqliteConnection, claims: &[Claim<'_>]) -> Result<Vec<String>, Error> {
        claims::insert(conn, claims).await
    }

    async fn look_all(conn: &mut SqliteConnection, claims: &[Claim<'_>]) -> Result<HashMap<String, Stored>, Error> {
        claims::look(conn, claims).await
    }

    // No lock to take: the transaction that writes is alone.
    async fn enqueue(conn: &mut SqliteConnection, records: &[Outgoing], _: &[i32]) -> Result<Vec<bool>, Error> {
        enqueue::enqueue(conn, records).await
    }

    async fn waiting(conn: &mut SqliteConnection, record: &Outgoing) -> Result<Option<Waiting>, Error> {
        enqueue::waiting(conn, record).await
    }

    async fn record(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<bool, Error> {
        register::record(conn, job).await
    }

    async fn recorded(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<Recorded, Error> {
        register::recorded(conn, job).await
    }

    async fn change(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<(), Error> {
        register::change(conn, job).await
    }

    async fn share(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<(), Error> {
        register::share(conn, job).await
    }

    async fn highest(conn: &mut SqliteConnection, job: &JobRow<'_>) -> Result<Vec<Highest>, Error> {
        register::highest(conn, job).await
    }
}
