//! Where databases differ.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Connection, Database, Error, SqlSafeStr, SqlStr};
use sqlx_core::transaction::TransactionManager;

use super::attempts::AttemptSql;
use super::enqueue::Waiting;
use super::letters::LetterSql;
use super::outcome::Stored;
use super::parked::ParkSql;
use super::register::{Highest, Recorded};
use super::statement::Syntax;
use super::watermarks::WatermarkSql;
use super::{Claim, Fault, JobRow, StoreError, Terms};
use crate::outgoing::Outgoing;

/// What an operator wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Also to change something: tables are brought up to date.
    Change,
    /// Only to look, for which a role that may only read is enough.
    Read,
}

/// How to connect to a database.
pub(super) type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// A database's own SQL and its own answers.
///
/// Implemented for the databases of this crate, and by nothing else.
pub trait Dialect: LetterSql + ParkSql + AttemptSql + WatermarkSql + fmt::Debug {
    /// The handle's name as users write it.
    const HANDLE: &'static str;
    /// The database's name in messages.
    const DATABASE: &'static str;
    /// Whether the next transaction may begin in the trip of a commit.
    const CHAINS: bool;
    /// Whether the session itself sees the end of a transaction that nobody was allowed to end.
    const WATCHES: bool;
    /// How its statements are told apart.
    const SYNTAX: Syntax;
    /// What the guard keeps beside a connection; dropped before it.
    type Guard: Send + Sync + 'static;
    /// Its own errors.
    type Failure: DatabaseError;

    /// How many connections of those asked for make sense.
    fn width(connections: usize) -> usize;
    /// Finds the database, checks it, brings our tables up to date.
    fn open(url: &str) -> impl Future<Output = Result<Options<Self>, StoreError>> + Send;
    /// The same for a role that may only read, where a database has roles: tables that are not up to date are refused.
    fn open_to_read(url: &str) -> impl Future<Output = Result<Options<Self>, StoreError>> + Send {
        Self::open(url)
    }
    /// Either.
    fn open_for(url: &str, access: Access) -> impl Future<Output = Result<Options<Self>, StoreError>> + Send {
        async move {
            match access {
                Access::Change => Self::open(url).await,
                Access::Read => Self::open_to_read(url).await,
            }
        }
    }
    /// Makes a new connection one for job transactions.
    fn prepare(conn: &mut Self::Connection) -> impl Future<Output = Result<Self::Guard, StoreError>> + Send;
    /// Runs a string of statements without parameters, in one trip.
    fn run(conn: &mut Self::Connection, sql: String) -> impl Future<Output = Result<(), Error>> + Send;
    /// The same, noting of each statement whose end was seen how many rows it wrote, whatever
    /// becomes of the rest.
    fn count(
        conn: &mut Self::Connection,
        sql: SqlStr,
        done: &mut Vec<u64>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The string that opens a job's transaction and the guard's savepoint, `mark`. The session
    /// may have the limits of these terms already: `settled`.
    fn opening(terms: &Terms, mark: &str, settled: bool) -> String;
    /// The string that makes every COMMIT but ours fail, if that takes a statement.
    fn sealing(mark: &str) -> Option<String>;
    /// The string before COMMIT, which fails unless the transaction is intact. Once it is
    /// committed, the session has the limits of `settle`.
    fn closing(guard: &Self::Guard, mark: &str, sealed: bool, settle: Option<Duration>) -> String;
    /// `closing` of a transaction that is not sealed, COMMIT, and the opening of the next one
    /// with the same isolation and the session's limits. `None` where the next may not begin so.
    fn chain(guard: &Self::Guard, mark: &str, settle: Option<Duration>) -> Option<Chain>;
    /// Our own COMMIT begins (`true`) or is over.
    fn permit(guard: &Self::Guard, commit: bool);
    /// COMMIT. The driver may go on counting the transaction, and the session is then
    /// between two.
    fn commit(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;
    /// A transaction of ours was opened.
    fn begun(guard: &Self::Guard);
    /// Whether that transaction is known to be gone, whatever COMMIT answered. Always `false`
    /// where nobody [watches](Self::WATCHES).
    fn ended(guard: &Self::Guard) -> bool;
    /// What a failure of `closing`, or of COMMIT, says.
    fn broken(error: &dyn DatabaseError) -> Broken;
    /// Whether an error that answers COMMIT proves that nothing was committed.
    fn proves_rollback(error: &dyn DatabaseError) -> bool;

    /// Whether the same work may succeed when it is tried again.
    fn fault(error: &Self::Failure) -> Fault;
    /// Whether another transaction held a lock for too long.
    fn held(error: &Self::Failure) -> bool;
    /// Whether the connection's prepared statements no longer fit the tables.
    fn stale(error: &dyn DatabaseError) -> bool;

    /// The dedup insert: whether a row was written.
    fn insert(conn: &mut Self::Connection, claim: &Claim<'_>) -> impl Future<Output = Result<bool, Error>> + Send;
    /// `opening` and the dedup insert, on a session that is between transactions:
    /// whether a row was written. An error says whether the insert was reached.
    fn open_and_insert(
        conn: &mut Self::Connection,
        opening: &str,
        claim: &Claim<'_>,
    ) -> impl Future<Output = Result<bool, (Error, bool)>> + Send;
    /// The dedup insert as statements to be sent behind others, where that is possible, in a
    /// transaction of these terms. It fails where it would have to wait.
    fn inserting(claim: &Claim<'_>, terms: &Terms) -> Option<[String; 3]>;
    /// The row that stands in its way.
    fn look(
        conn: &mut Self::Connection,
        claim: &Claim<'_>,
    ) -> impl Future<Output = Result<Option<Stored>, Error>> + Send;

    /// The dedup inserts of claims of one job in one statement: the keys that were free.
    fn insert_all(
        conn: &mut Self::Connection,
        claims: &[Claim<'_>],
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
    /// The rows that hold any of the keys of claims of one job, by key.
    fn look_all(
        conn: &mut Self::Connection,
        claims: &[Claim<'_>],
    ) -> impl Future<Output = Result<HashMap<String, Stored>, Error>> + Send;

    /// Stores records of equal further headers, due time and ordering: of each whether it is new. Takes
    /// these of the locks that keep the order of commit first, in the order given, to be held to
    /// the end of the transaction.
    fn enqueue(
        conn: &mut Self::Connection,
        records: &[Outgoing],
        stripes: &[i32],
    ) -> impl Future<Output = Result<Vec<bool>, Error>> + Send;
    /// The record that waits under the same topic and key.
    fn waiting(
        conn: &mut Self::Connection,
        record: &Outgoing,
    ) -> impl Future<Output = Result<Option<Waiting>, Error>> + Send;

    /// The string that opens the transaction of a start: it reads what others committed, and
    /// does not wait for their locks for ever.
    const STARTING: &'static str;
    /// Writes a job's record: whether there was none.
    fn record(conn: &mut Self::Connection, job: &JobRow<'_>) -> impl Future<Output = Result<bool, Error>> + Send;
    /// A job's record, locked, so that two starts do not judge by the same old one.
    fn recorded(conn: &mut Self::Connection, job: &JobRow<'_>) -> impl Future<Output = Result<Recorded, Error>> + Send;
    /// Changes key form and scheme of a job's record.
    fn change(conn: &mut Self::Connection, job: &JobRow<'_>) -> impl Future<Output = Result<(), Error>> + Send;
    /// Marks a job's record as one that others use too.
    fn share(conn: &mut Self::Connection, job: &JobRow<'_>) -> impl Future<Output = Result<(), Error>> + Send;
    /// Reads every row of the job: only when its key changed, and an index for it would cost
    /// every claim.
    fn highest(
        conn: &mut Self::Connection,
        job: &JobRow<'_>,
    ) -> impl Future<Output = Result<Vec<Highest>, Error>> + Send;
}

/// Whether the driver counts a transaction that is over, so that the next one is opened without
/// it. For an idle session only.
pub(super) fn between<DB: Dialect>(conn: &DB::Connection) -> bool {
    depth::<DB>(conn) == 1
}

/// How deep sqlx believes the connection to be in transactions and savepoints.
pub(super) fn depth<DB: Dialect>(conn: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(conn)
}

/// A string that closes a transaction and opens the next one.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The whole string.
    pub(super) sql: SqlStr,
    /// How many statements stand before COMMIT.
    pub(super) before: usize,
    /// How many there are.
    pub(super) all: usize,
}

impl Chain {
    /// With one more statement.
    pub(super) fn and(self, last: &str) -> Self {
        let sql: Arc<str> = format!("{}; {last}", self.sql.as_str()).into();
        Self { sql: AssertSqlSafe(sql).into_sql_str(), before: self.before, all: self.all + 1 }
    }
}

/// Why the guard's savepoint could not be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A statement had failed, and the transaction with it.
    Aborted,
    /// The savepoint is not there: another transaction, or none.
    Gone,
    /// The answer to an earlier statement whose result the handler did not wait for.
    Earlier,
    /// The connection is being closed by the server.
    Lost,
}
