//! The life of a job's transaction, the same for every database.

use std::error::Error as StdError;
use std::time::{Duration, Instant};

use futures_util::TryFutureExt;
use sqlx::{Error, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;
use tokio::time::timeout;

use super::dialect::{Access, Broken, Dialect, Options, between, depth};
use super::handle::Tx;
use super::outcome::judge;
use super::slots::{Lease, Slots, within};
use super::watermarks::Marking;
use super::{
    Advance, Advanced, Again, Ahead, Buried, Claim, Claimed, CommitError, Committed, DeadLetter, Death, Fault, JobRow,
    Known, Note, Parking, Requested, Revision, Rolled, Store, StoreError, Taken, Taking, Terms, Tried, Unkeyed,
    attempts, claims, commit, fault, letters, parked, register,
};
use crate::context::Isolation;
use crate::message::Coordinates;

/// How long a rollback may take before the connection is closed instead.
pub(super) const ROLLBACK: Duration = Duration::from_secs(2);

/// What BEGIN, and guard and COMMIT together, get at least, however short the attempt's timeout
/// or the rest of it: a handler that ended in time is not failed for the instants after it, and a
/// timeout shorter than a round trip does not look like trouble of the database for ever.
pub(super) const LEAST: Duration = Duration::from_secs(2);

/// The terms of a transaction that is no job's.
pub(super) const BESIDE: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(15) };

/// Those of a message that is parked: whoever runs the head of its lane has that locked meanwhile, and it waits in memory.
const PARKING: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(2) };
/// The terms of a note: whoever waits for it lets others wait.
const NOTING: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(5) };

const CLAIMING: &str = "claiming the key";

/// A dead letter that is run again holds one of them, for as long as that takes.
const ASIDE: usize = 2;

/// The store of a database that speaks SQL: `PostgresStore`, `SqliteStore`.
pub struct SqlStore<DB: Dialect> {
    pub(super) slots: Slots<DB>,
    /// For what is done beside the workers' jobs, where more than one connection makes sense: a worker
    /// keeps its own while it has work.
    aside: Option<Slots<DB>>,
    pub(super) marking: Marking<DB>,
}

impl<DB: Dialect> Store for SqlStore<DB> {
    type Tx = Tx<DB>;
    const CHAINS: bool = DB::CHAINS;

    async fn open(url: &str, connections: usize) -> Result<Self, StoreError> {
        DB::open(url).await.map(|options| Self::of(options, connections))
    }

    fn connections(&self) -> usize {
        self.slots.size()
    }

    async fn warm(&self) {
        // All slots are taken before the first connection is there to be taken again.
        let opening = (0..self.slots.size()).map(|_| async {
            if let Ok(lease) = self.slots.acquire().await {
                lease.give_back();
            }
        });
        futures_util::future::join_all(opening).await;
    }

    async fn register(&self, jobs: &[JobRow<'_>], committed: Committed<'_>) -> Result<Vec<String>, StoreError> {
        register::register::<DB>(&self.slots.options, jobs, committed).await
    }

    async fn begin(&self, terms: Terms) -> Result<Tx<DB>, StoreError> {
        let lease = self.slots.acquire().await?;
        self.begin_on(lease, terms).await
    }

    async fn claim(&self, tx: &mut Tx<DB>, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        let (conn, _) = tx.parts();
        let failed = |error| StoreError::driver::<DB>(CLAIMING, error);
        // Whether a row was written is the only signal. It also waits for whoever holds the key.
        if DB::insert(conn, &claim).await.map_err(failed)? {
            return Ok(Claimed::Fresh);
        }
        self.stored(tx, claim).await
    }

    async fn begin_and_claim(
        &self,
        open: Option<Tx<DB>>,
        terms: Terms,
        claim: Claim<'_>,
        budget: Duration,
    ) -> Result<(Tx<DB>, Claimed), StoreError> {
        let budget = budget.max(LEAST);
        let blameless = |error: StoreError| StoreError { fault: Fault::Transient, ..error };
        if let Some(tx) = open {
            return self.claim_within(tx, claim, budget).await;
        }
        let lease = self.slots.acquire().await.map_err(blameless)?;
        if between::<DB>(&lease.session.conn) {
            return self.open_and_claim(lease, terms, claim, budget).await;
        }
        let tx = self.begin_on(lease, terms).await.map_err(blameless)?;
        self.claim_within(tx, claim, budget).await
    }

    async fn commit(&self, tx: Tx<DB>, budget: Duration) -> Result<(), CommitError> {
        let (tx, budget) = commit::flushed(tx, budget).await?;
        self.close(tx, budget).await
    }

    async fn commit_and_begin(&self, tx: Tx<DB>, budget: Duration, next: Terms) -> Result<Option<Tx<DB>>, CommitError> {
        let (tx, budget) = commit::flushed(tx, budget).await?;
        match commit::chain_of(&tx, &next) {
            Some(chain) => Ok(commit::chain(tx, chain, budget, next).await?.map(|(tx, _)| tx)),
            None => self.close(tx, budget).await.map(|()| None),
        }
    }

    async fn commit_and_claim(
        &self,
        tx: Tx<DB>,
        budget: Duration,
        next: Terms,
        claim: Claim<'_>,
    ) -> Result<Ahead<Tx<DB>>, CommitError> {
        let (tx, budget) = commit::flushed(tx, budget).await?;
        let Some(chain) = commit::chain_of(&tx, &next) else { return self.close(tx, budget).await.map(|()| None) };
        let inserting = DB::inserting(&claim, &next);
        let chain = inserting.iter().flatten().fold(chain, |chain, statement| chain.and(statement));
        let opened = commit::chain(tx, chain, budget, next).await?;
        Ok(opened.map(|(tx, rows)| (tx, inserting.is_some() && rows == 1)))
    }

    async fn claim_all(&self, tx: &mut Tx<DB>, claims: &[Claim<'_>]) -> Result<Vec<Claimed>, StoreError> {
        let (conn, _) = tx.parts();
        claims::claim::<DB>(conn, claims).await
    }

    async fn seen(&self, claims: &[Claim<'_>]) -> Result<Vec<Claimed>, StoreError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let mut lease = self.slots.acquire().await?;
        let mut seen = claims::seen::<DB>(&mut lease.session.conn, claims).await;
        if lease.kept && seen.as_ref().is_err_and(died::<DB>) {
            lease = self.slots.renew(lease).await?;
            seen = claims::seen::<DB>(&mut lease.session.conn, claims).await;
        }
        // After an error the connection is dropped.
        if seen.is_ok() {
            lease.give_back();
        }
        seen
    }

    async fn bury(&self, death: &Death<'_>) -> Result<Buried, StoreError> {
        let tx = self.begin(BESIDE).await?;
        self.bury_in(tx, death).await
    }

    async fn bury_aside(&self, death: &Death<'_>) -> Result<Buried, StoreError> {
        let tx = self.begin_aside(BESIDE).await?;
        self.bury_in(tx, death).await
    }

    async fn park(&self, death: &Death<'_>, lane: &[u8; 32], limit: u32) -> Result<Parking, StoreError> {
        let transient = |error: StoreError| StoreError { fault: Fault::Transient, ..error };
        let mut tx = self.begin(PARKING).await.map_err(transient)?;
        // An error drops the transaction and its connection.
        let parking = parked::park::<DB>(tx.parts().0, death, lane, limit);
        match within(BESIDE.timeout, parked::PARKING, parking).await.map_err(transient)? {
            written @ (Parking::Parked | Parking::Already | Parking::Full { .. }) => {
                self.end(tx, parked::PARKING).await.map(|()| written)
            }
            nothing => {
                self.rollback(tx).await;
                Ok(nothing)
            }
        }
    }

    async fn parked(&self, group: &str, at: &Coordinates) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut lease = self.slots.acquire().await?;
        let mut found = parked::lanes_of::<DB>(&mut lease.session.conn, group, at).await;
        if lease.kept && found.as_ref().is_err_and(died::<DB>) {
            lease = self.slots.renew(lease).await?;
            found = parked::lanes_of::<DB>(&mut lease.session.conn, group, at).await;
        }
        found.inspect(|_| lease.give_back())
    }

    async fn is_parked(
        &self,
        tx: &mut Tx<DB>,
        group: &str,
        job: &str,
        at: &Coordinates,
        lane: &[u8; 32],
    ) -> Result<bool, StoreError> {
        let held = DB::hold_lane(tx.parts().0, group, job, at, lane).await;
        held.map(|held| held.is_some()).map_err(|error| StoreError::driver::<DB>(parked::PARKING, error))
    }

    async fn unkeyed(&self, group: &str, from: &Coordinates) -> Result<Vec<Unkeyed>, StoreError> {
        let mut lease = self.slots.acquire().await?;
        let mut found = letters::unkeyed::<DB>(&mut lease.session.conn, group, from).await;
        if lease.kept && found.as_ref().is_err_and(died::<DB>) {
            lease = self.slots.renew(lease).await?;
            found = letters::unkeyed::<DB>(&mut lease.session.conn, group, from).await;
        }
        found.inspect(|_| lease.give_back())
    }

    async fn take_over(&self, group: &str, process: &str, takings: &[Taking<'_>]) -> Result<Vec<Taken>, StoreError> {
        let mut tx = self.begin(BESIDE).await?;
        let taking = attempts::take_over::<DB>(tx.parts().0, group, process, takings);
        let taken = within(BESIDE.timeout, attempts::TAKING, taking).await?;
        self.end(tx, attempts::TAKING).await.map(|()| taken)
    }

    async fn let_go(&self, group: &str, owned: &[Taking<'_>]) -> Result<(), StoreError> {
        let mut tx = self.begin_aside(BESIDE).await?;
        within(BESIDE.timeout, attempts::LETTING, attempts::let_go::<DB>(tx.parts().0, group, owned)).await?;
        self.end(tx, attempts::LETTING).await
    }

    async fn note(&self, tried: &Tried<'_>, note: Note<'_>) -> Result<(), StoreError> {
        let mut tx = self.begin(NOTING).await?;
        within(NOTING.timeout, attempts::NOTING, attempts::note::<DB>(tx.parts().0, tried, note)).await?;
        self.end(tx, attempts::NOTING).await
    }

    async fn note_redrive(&self, id: i64, process: &str) -> Result<Option<attempts::Redriven>, StoreError> {
        let mut tx = self.begin_aside(NOTING).await?;
        let noting = attempts::note_redrive::<DB>(tx.parts().0, id, process);
        let known = within(NOTING.timeout, attempts::NOTING, noting).await?;
        self.end(tx, attempts::NOTING).await.map(|()| known)
    }

    async fn redrive_ended(&self, id: i64, process: &str, ended: attempts::Redrive) -> Result<bool, StoreError> {
        let mut tx = self.begin_aside(NOTING).await?;
        let failed = |error| StoreError::driver::<DB>(attempts::NOTING, error);
        let noting = async { DB::redrive_ended(tx.parts().0, id, process, ended).await.map_err(failed) };
        let noted = within(NOTING.timeout, attempts::NOTING, noting).await?;
        self.end(tx, attempts::NOTING).await.map(|()| noted)
    }

    async fn redrives_ended(&self, process: &str) -> Result<(), StoreError> {
        let mut tx = self.begin_aside(NOTING).await?;
        let failed = |error| StoreError::driver::<DB>(attempts::NOTING, error);
        let noting = async { DB::redrives_ended(tx.parts().0, process).await.map_err(failed) };
        within(NOTING.timeout, attempts::NOTING, noting).await?;
        self.end(tx, attempts::NOTING).await
    }

    async fn forget(&self, tx: &mut Tx<DB>, claim: Claim<'_>) -> Result<(), StoreError> {
        let forgotten = DB::forget(tx.parts().0, claim.group, claim.job, claim.at).await;
        forgotten.map_err(|error| StoreError::driver::<DB>(attempts::NOTING, error))
    }

    async fn requested(
        &self,
        after: i64,
        group: &str,
        jobs: &[&str],
        topics: &[&str],
    ) -> Result<Vec<Requested>, StoreError> {
        let slots = self.aside.as_ref().unwrap_or(&self.slots);
        let mut lease = slots.acquire().await?;
        let mut found = letters::requested::<DB>(&mut lease.session.conn, after, group, jobs, topics).await;
        if lease.kept && found.as_ref().is_err_and(died::<DB>) {
            lease = slots.renew(lease).await?;
            found = letters::requested::<DB>(&mut lease.session.conn, after, group, jobs, topics).await;
        }
        found.inspect(|_| lease.give_back())
    }

    async fn begin_aside(&self, terms: Terms) -> Result<Tx<DB>, StoreError> {
        let lease = self.aside.as_ref().unwrap_or(&self.slots).acquire().await?;
        self.begin_on(lease, terms).await
    }

    async fn take_letter(&self, tx: &mut Tx<DB>, id: i64) -> Result<Option<DeadLetter>, StoreError> {
        within(BESIDE.timeout, letters::TAKING, letters::take::<DB>(tx.parts().0, id)).await
    }

    async fn supersede(&self, tx: &mut Tx<DB>, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        letters::supersede::<DB>(tx.parts().0, &claim).await
    }

    async fn redriven(&self, tx: &mut Tx<DB>, id: i64, detail: Option<&str>) -> Result<(), StoreError> {
        within(BESIDE.timeout, letters::TAKING, letters::redriven::<DB>(tx.parts().0, id, detail)).await
    }

    async fn reopen(&self, id: i64, again: &Again<'_>) -> Result<bool, StoreError> {
        let mut tx = self.begin_aside(BESIDE).await?;
        let reopening = letters::reopen::<DB>(tx.parts().0, id, again);
        let reopened = within(BESIDE.timeout, letters::REOPENING, reopening).await?;
        self.end(tx, letters::REOPENING).await.map(|()| reopened)
    }

    fn since(tx: &Tx<DB>) -> Instant {
        tx.lease.since
    }

    async fn watermarks(&self, group: &str, partitions: &[(&str, i32)]) -> Result<Known, StoreError> {
        self.known_watermarks(group, partitions).await
    }

    async fn change_watermarks(&self, group: &str, changes: &[Revision]) -> Result<Vec<bool>, StoreError> {
        self.changed_watermarks(group, changes).await
    }

    async fn advance(&self, life: u64, group: &str, steps: &[Advance<'_>]) -> Result<Advanced, StoreError> {
        self.advanced(life, group, steps).await
    }

    fn told(tx: &Tx<DB>) -> bool {
        tx.notes.held.told()
    }

    fn disturbed(tx: &Tx<DB>) -> Option<&'static str> {
        tx.notes.disturbed()
    }

    async fn rollback(&self, tx: Tx<DB>) -> Rolled {
        let Tx { mut lease, notes, .. } = tx;
        if notes.cut {
            return Rolled::Back;
        }
        match timeout(ROLLBACK, undo::<DB>(&mut lease)).await {
            Ok(Ok(clean)) => {
                if clean && !notes.tainted {
                    lease.give_back();
                }
                Rolled::Back
            }
            Ok(Err(Error::Database(error))) if DB::broken(&*error) == Broken::Gone && notes.ended_by_handler() => {
                Rolled::EndedByHandler
            }
            _ => Rolled::Back,
        }
    }

    fn first_error(tx: &Tx<DB>) -> Option<&str> {
        tx.notes.first_error.as_deref()
    }

    fn fault(error: &(dyn StdError + 'static)) -> Fault {
        fault::of_chain::<DB>(error)
    }
}

impl<DB: Dialect> SqlStore<DB> {
    fn of(options: Options<DB>, connections: usize) -> Self {
        let aside = DB::CHAINS.then(|| Slots::new(options.clone(), ASIDE));
        let marking = Marking::new(&options);
        Self { slots: Slots::new(options, DB::width(connections.max(1))), aside, marking }
    }

    /// With one connection, for an operator.
    pub(super) async fn open_for(url: &str, access: Access) -> Result<Self, StoreError> {
        DB::open_for(url, access).await.map(|options| Self::of(options, 1))
    }

    async fn bury_in(&self, mut tx: Tx<DB>, death: &Death<'_>) -> Result<Buried, StoreError> {
        // An error drops the transaction and its connection.
        match within(BESIDE.timeout, letters::BURYING, letters::bury::<DB>(tx.parts().0, death)).await? {
            Buried::Seen(claimed) => {
                self.rollback(tx).await;
                Ok(Buried::Seen(claimed))
            }
            written => self.end(tx, letters::BURYING).await.map(|()| written),
        }
    }

    /// Commits what is no job's. Without an answer it counts as not done, and is done again.
    pub(super) async fn end(&self, tx: Tx<DB>, doing: &'static str) -> Result<(), StoreError> {
        self.commit(tx, BESIDE.timeout).await.map_err(|error| StoreError::transient(doing, error))
    }

    async fn close(&self, tx: Tx<DB>, budget: Duration) -> Result<(), CommitError> {
        if let Some(lease) = commit::commit(tx, budget).await? {
            lease.give_back();
        }
        Ok(())
    }

    async fn begin_on(&self, mut lease: Lease<DB>, terms: Terms) -> Result<Tx<DB>, StoreError> {
        let opened = open(&mut lease, &terms).await;
        match opened {
            Ok(()) => Ok(Tx::new(lease, terms)),
            // A kept connection may have died while it was idle; nothing was begun on it.
            Err(error) if lease.kept && died::<DB>(&error) => {
                lease = self.slots.renew(lease).await?;
                open(&mut lease, &terms).await?;
                Ok(Tx::new(lease, terms))
            }
            Err(error) => Err(error),
        }
    }

    /// A claim without an answer leaves a connection that is closed; one that fails does not.
    async fn claim_within(
        &self,
        mut tx: Tx<DB>,
        claim: Claim<'_>,
        budget: Duration,
    ) -> Result<(Tx<DB>, Claimed), StoreError> {
        match timeout(budget, self.claim(&mut tx, claim)).await {
            Ok(Ok(claimed)) => Ok((tx, claimed)),
            Ok(Err(error)) => {
                self.rollback(tx).await;
                Err(error)
            }
            Err(_) => Err(StoreError::transient(CLAIMING, format!("no answer within {budget:?}"))),
        }
    }

    /// On a session that is between transactions.
    async fn open_and_claim(
        &self,
        mut lease: Lease<DB>,
        terms: Terms,
        claim: Claim<'_>,
        budget: Duration,
    ) -> Result<(Tx<DB>, Claimed), StoreError> {
        let session = &mut lease.session;
        let opening = DB::opening(&terms, &session.mark, session.settled == Some(terms.timeout));
        let inserting = DB::open_and_insert(&mut session.conn, &opening, &claim).map_err(|(error, reached)| {
            let error = StoreError::driver::<DB>(CLAIMING, error);
            if reached { error } else { StoreError { fault: Fault::Transient, ..error } }
        });
        let free = within(budget, CLAIMING, inserting).await?;
        DB::begun(&session.guard);
        let mut tx = Tx::new(lease, terms);
        let claimed = if free { Claimed::Fresh } else { self.stored(&mut tx, claim).await? };
        Ok((tx, claimed))
    }

    /// What holds the key that a claim did not get.
    async fn stored(&self, tx: &mut Tx<DB>, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        let (conn, _) = tx.parts();
        match DB::look(conn, &claim).await.map_err(|error| StoreError::driver::<DB>(CLAIMING, error))? {
            Some(stored) => Ok(judge(stored, &claim)),
            None => Err(StoreError::transient(CLAIMING, "the row that held the key is gone: it was purged meanwhile")),
        }
    }
}

/// BEGIN, its settings and the guard's savepoint, in one trip and through sqlx's own begin, so
/// that its count of transactions stays true.
pub(super) async fn open<DB: Dialect>(lease: &mut Lease<DB>, terms: &Terms) -> Result<(), StoreError> {
    const DOING: &str = "beginning a transaction";
    let session = &mut lease.session;
    let settled = session.settled == Some(terms.timeout);
    let opening = DB::opening(terms, &session.mark, settled);
    let begun = async {
        if between::<DB>(&session.conn) {
            return DB::run(&mut session.conn, opening).await;
        }
        let opening = sqlx::AssertSqlSafe(opening).into_sql_str();
        DB::TransactionManager::begin(&mut session.conn, Some(opening)).await
    };
    let limit = terms.timeout.max(LEAST);
    match timeout(limit, begun).await {
        Ok(Ok(())) => {
            DB::begun(&session.guard);
            Ok(())
        }
        Ok(Err(error)) => Err(StoreError::driver::<DB>(DOING, error)),
        Err(_) => Err(StoreError::transient(DOING, format!("no answer within {limit:?}"))),
    }
}

/// Whether the connection, not the database, failed.
fn died<DB: Dialect>(error: &StoreError) -> bool {
    match error.source.downcast_ref::<Error>() {
        Some(Error::Database(error)) => DB::broken(&**error) == Broken::Lost,
        Some(error) => fault::lost(error),
        None => false,
    }
}

/// Back to the guard's savepoint, which proves that it is still the transaction that was
/// opened, and then back altogether. Says whether the connection is surely clean.
pub(super) async fn undo<DB: Dialect>(lease: &mut Lease<DB>) -> Result<bool, Error> {
    let session = &mut lease.session;
    DB::run(&mut session.conn, format!("ROLLBACK TO SAVEPOINT {}", session.mark)).await?;
    if depth::<DB>(&session.conn) != 1 {
        return Ok(false);
    }
    DB::TransactionManager::rollback(&mut session.conn).await?;
    Ok(depth::<DB>(&session.conn) == 0)
}
