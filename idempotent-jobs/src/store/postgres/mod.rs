//! PostgreSQL, 14 and later.

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
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgTransactionManager};
use sqlx::{Error, Executor, PgConnection, Postgres, SqlStr};
use sqlx_core::transaction::TransactionManager;

pub(in crate::store) use self::inspect::{inspect, marks, standing};
pub use self::migrate::migrations_sql;
pub use self::operate::PostgresOperate;
pub use self::relay::PostgresRelay;
pub use self::retention::PostgresRetention;
use super::dialect::{Broken, Chain, Dialect};
use super::enqueue::Waiting;
use super::outcome::Stored;
use super::register::{Highest, Recorded};
use super::statement::Syntax;
use super::{Claim, Fault, JobRow, SqlStore, StoreError, Terms, Tx};
use crate::context::IsolationLevels;
use crate::outgoing::Outgoing;

/// The transaction of one attempt on PostgreSQL, lent to the handler.
pub type PgTx = Tx<Postgres>;

/// Claims and transactions on PostgreSQL.
pub type PostgresStore = SqlStore<Postgres>;

impl IsolationLevels for PgTx {}

impl Dialect for Postgres {
    const HANDLE: &'static str = "PgTx";
    const DATABASE: &'static str = "PostgreSQL";
    const CHAINS: bool = true;
    const WATCHES: bool = false;
    const SYNTAX: Syntax = Syntax::Postgres;
    const STARTING: &'static str = migrate::STARTING;
    type Guard = guard::Guard;
    type Failure = PgDatabaseError;

    fn width(connections: usize) -> usize {
        connections
    }

    async fn open(url: &str) -> Result<PgConnectOptions, StoreError> {
        open::open(url).await
    }

    async fn open_to_read(url: &str) -> Result<PgConnectOptions, StoreError> {
        open::open_to_read(url).await
    }

    async fn prepare(conn: &mut PgConnection) -> Result<guard::Guard, StoreError> {
        session::prepare(conn).await
    }

    async fn run(conn: &mut PgConnection, sql: String) -> Result<(), Error> {
        conn.execute(sqlx::AssertSqlSafe(sql)).await.map(drop)
    }

    async fn count(conn: &mut PgConnection, sql: SqlStr, done: &mut Vec<u64>) -> Result<(), Error> {
        let mut ends = conn.execute_many(sql);
        while let Some(end) = ends.try_next().await? {
            done.push(end.rows_affected());
        }
        Ok(())
    }

    fn opening(terms: &Terms, mark: &str, settled: bool) -> String {
        session::opening(terms, mark, settled)
    }

    fn sealing(mark: &str) -> Option<String> {
        Some(guard::sealing(mark))
    }

    fn closing(guard: &guard::Guard, mark: &str, sealed: bool, settle: Option<Duration>) -> String {
        guard::closing(guard, mark, sealed, settle).join("; ")
    }

    fn chain(guard: &guard::Guard, mark: &str, settle: Option<Duration>) -> Option<Chain> {
        Some(guard::chain(guard, mark, settle))
    }

    // The closing string names the seal's token; nothing more is needed.
    fn permit(_: &guard::Guard, _: bool) {}

    async fn commit(conn: &mut PgConnection) -> Result<(), Error> {
        PgTransactionManager::commit(conn).await
    }

    // The savepoint proves it.
    fn begun(_: &guard::Guard) {}

    fn ended(_: &guard::Guard) -> bool {
        false
    }

    fn broken(error: &dyn DatabaseError) -> Broken {
        guard::broken(error)
    }

    fn proves_rollback(error: &dyn DatabaseError) -> bool {
        guard::proves_rollback(error)
    }

    fn fault(error: &PgDatabaseError) -> Fault {
        fault::fault(error)
    }

    fn held(error: &PgDatabaseError) -> bool {
        fault::held(error)
    }

    fn stale(error: &dyn DatabaseError) -> bool {
        fault::stale(error)
    }

    async fn insert(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<bool, Error> {
        claim::insert(conn, claim).await
    }

    // Never between transactions: sqlx counts them all.
    async fn open_and_insert(conn: &mut PgConnection, opening: &str, claim: &Claim<'_>) -> Result<bool, (Error, bool)> {
        Self::run(conn, opening.to_owned()).await.map_err(|error| (error, false))?;
        Self::insert(conn, claim).await.map_err(|error| (error, true))
    }

    fn inserting(claim: &Claim<'_>, terms: &Terms) -> Option<[String; 3]> {
        claim::inserting(claim, terms)
    }

    async fn look(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<Option<Stored>, Error> {
        claim::look(conn, claim).await
    }

    async fn insert_all(conn: &mut PgConnection, claims: &[Claim<'_>]) -> Result<Vec<String>, Error> {
        claims::insert(conn, claims).await
    }

    async fn look_all(conn: &mut PgConnection, claims: &[Claim<'_>]) -> Result<HashMap<String, Stored>, Error> {
        claims::look(conn, claims).await
    }

    async fn enqueue(conn: &mut PgConnection, records: &[Outgoing], stripes: &[i32]) -> Result<Vec<bool>, Error> {
        enqueue::enqueue(conn, records, stripes).await
    }

    async fn waiting(conn: &mut PgConnection, record: &Outgoing) -> Result<Option<Waiting>, Error> {
        enqueue::waiting(conn, record).await
    }

    async fn record(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<bool, Error> {
        register::record(conn, job).await
    }

    async fn recorded(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<Recorded, Error> {
        register::recorded(conn, job).await
    }

    async fn change(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<(), Error> {
        register::change(conn, job).await
    }

    async fn share(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<(), Error> {
        register::share(conn, job).await
    }

    async fn highest(conn: &mut PgConnection, job: &JobRow<'_>) -> Result<Vec<Highest>, Error> {
        register::highest(conn, job).await
    }
}
