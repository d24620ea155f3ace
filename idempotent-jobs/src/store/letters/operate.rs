//! What operators ask for.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Change, DeadLetter, Filter, LetterState, Standing};
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::store::dialect::{Access, Dialect};
use crate::store::outcome::judge;
use crate::store::slots::{ANSWER, Lease, within};
use crate::store::transaction::BESIDE;
use crate::store::{Claim, Claimed, ParkedLane, SqlStore, Store, StoreError, parked, unknown_database};

/// What would become of a dead letter if it were run again now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Foreseen {
    /// Its handler would be entered.
    Runs,
    /// Its message could not be read or keyed, or no job took it, or its job compares other fields by now: that shows when a
    /// worker reads it.
    Unkeyed,
    /// Its key was done meanwhile: it would not be run.
    Duplicate,
    /// Its key belongs to another message: it would be open again.
    Conflict,
    /// It waits behind another letter of its lane, and is run when that is redriven or skipped, and its turn comes.
    Waits {
        /// The letter to decide on.
        behind: i64,
    },
    /// It would be left as it stands: requested, or redriven.
    Stands(LetterState),
    /// There is no such letter.
    Unknown,
}

/// The port of those who decide on dead letters.
#[async_trait]
pub trait LetterStore: Send + Sync + 'static {
    /// Those that are meant, by their numbers.
    async fn list(&self, filter: &Filter) -> Result<Vec<DeadLetter>, StoreError>;
    /// The changes of one, in their order.
    async fn history(&self, id: i64) -> Result<Vec<Change>, StoreError>;
    /// Changes how one stands: whether it stood in one of `from`.
    async fn change(&self, id: i64, from: &[LetterState], to: LetterState, by: &str) -> Result<bool, StoreError>;
    /// What would become of one. Nothing is written.
    async fn foresee(&self, letter: &DeadLetter) -> Result<Foreseen, StoreError>;
    /// The lanes that wait, the oldest first.
    async fn parked(&self) -> Result<Vec<ParkedLane>, StoreError>;
    /// How those of these numbers stand that are there, without their messages.
    async fn standings(&self, ids: &[i64]) -> Result<Vec<Standing>, StoreError>;
}

const READING: &str = "reading dead letters";
const CHANGING: &str = "changing a dead letter";

#[async_trait]
impl<DB: Dialect> LetterStore for SqlStore<DB> {
    async fn list(&self, filter: &Filter) -> Result<Vec<DeadLetter>, StoreError> {
        let mut lease = self.slots.acquire().await?;
        let found = DB::list(&mut lease.session.conn, filter);
        read::<DB, _>(found).await.inspect(|_| lease.give_back())
    }

    async fn history(&self, id: i64) -> Result<Vec<Change>, StoreError> {
        let mut lease = self.slots.acquire().await?;
        let found = DB::history(&mut lease.session.conn, id);
        read::<DB, _>(found).await.inspect(|_| lease.give_back())
    }

    async fn change(&self, id: i64, from: &[LetterState], to: LetterState, by: &str) -> Result<bool, StoreError> {
        let mut tx = self.begin(BESIDE).await?;
        let changing = parked::change::<DB>(tx.parts().0, id, from, to, by);
        let changed = within(ANSWER, CHANGING, changing).await?;
        self.end(tx, CHANGING).await.map(|()| changed)
    }

    async fn parked(&self) -> Result<Vec<ParkedLane>, StoreError> {
        let mut lease = self.slots.acquire().await?;
        let found = DB::lanes(&mut lease.session.conn);
        read::<DB, _>(found).await.inspect(|_| lease.give_back())
    }

    async fn foresee(&self, letter: &DeadLetter) -> Result<Foreseen, StoreError> {
        if letter.state == LetterState::Parked {
            let mut lease = self.slots.acquire().await?;
            let head = read::<DB, _>(DB::head_of(&mut lease.session.conn, letter.id)).await?;
            lease.give_back();
            // Otherwise its lane was let go just now, and it runs.
            return Ok(head.map_or(Foreseen::Runs, |behind| Foreseen::Waits { behind }));
        }
        let (Some(job), Some(key), Some(fingerprint), Some(scheme)) =
            (&letter.job, &letter.key, letter.fingerprint.as_deref().and_then(Fingerprint::from_bytes), &letter.scheme)
        else {
            return Ok(Foreseen::Unkeyed);
        };
        let (key, at) = (Key::of_text(key), &letter.message.coordinates);
        let claim = Claim { job, key: &key, fingerprint, scheme, group: &letter.group, at };
        let mut lease = self.slots.acquire().await?;
        let foreseen = read::<DB, _>(foresee::<DB>(&mut lease, &claim)).await;
        foreseen.inspect(|_| lease.give_back())
    }

    async fn standings(&self, ids: &[i64]) -> Result<Vec<Standing>, StoreError> {
        let mut lease = self.slots.acquire().await?;
        let found = DB::standings(&mut lease.session.conn, ids);
        read::<DB, _>(found).await.inspect(|_| lease.give_back())
    }
}

/// As [`supersede`](super::supersede) would find it.
async fn foresee<DB: Dialect>(lease: &mut Lease<DB>, claim: &Claim<'_>) -> Result<Foreseen, sqlx::Error> {
    let conn = &mut lease.session.conn;
    let Some(stored) = DB::look(conn, claim).await? else { return Ok(Foreseen::Runs) };
    let (dead, fingerprint) = (stored.dead, stored.fingerprint.clone());
    Ok(match judge(stored, claim) {
        Claimed::Fresh | Claimed::Dead => Foreseen::Runs,
        Claimed::Duplicate => Foreseen::Duplicate,
        Claimed::Unverified => Foreseen::Unkeyed,
        Claimed::Conflict { .. } if dead && !DB::is_undecided(conn, claim, &fingerprint).await? => Foreseen::Runs,
        Claimed::Conflict { .. } => Foreseen::Conflict,
    })
}

async fn read<DB: Dialect, T>(reading: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
    let read = async { reading.await.map_err(|error| StoreError::driver::<DB>(READING, error)) };
    within(ANSWER, READING, read).await
}

/// The dead letters of the database of this URL.
///
/// # Errors
/// The database is of no kind this build knows, or cannot be used so.
pub async fn open_letters(url: &str, access: Access) -> Result<Arc<dyn LetterStore>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(crate::store::PostgresStore::open_for(url, access).await?)),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(crate::store::SqliteStore::open_for(url, access).await?)),
        _ => Err(StoreError::lasting("reading DATABASE_URL", unknown_database())),
    }
}
