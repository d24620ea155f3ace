//! The contract every store passes, whatever its database. Cases carry their ids.

#![allow(dead_code, reason = "each test target uses the part that its database needs")]

mod attempts;
pub mod enqueue;
pub mod lanes;
mod letters;
mod parked;
pub mod pooling;
pub mod proxy;
mod shared;

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotent_jobs::__private::store::{
    Claim, Claimed, CommitError, Dialect, Fault, Fingerprint, Isolation, JobRow, Key, Rolled, Savepoint, Store,
    StoreError, Terms, Tx,
};
use idempotent_jobs::Coordinates;

pub use self::attempts::*;
pub use self::enqueue::*;
pub use self::letters::*;
pub use self::parked::*;
pub use self::shared::*;

pub const BUDGET: Duration = Duration::from_secs(10);

pub const TERMS: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(20) };

/// A database of its own for one test, with a table `effects (id, parent)` whose foreign key
/// on itself is checked at COMMIT.
pub trait Bed: Sized + Send + Sync + 'static {
    type Db: Dialect;
    type Store: Store<Tx = Tx<Self::Db>>;
    /// Whether a failed statement fails the whole transaction.
    const ABORTS: bool;
    const EFFECTS: &'static str = "CREATE TABLE effects (id BIGINT PRIMARY KEY, \
         parent BIGINT REFERENCES effects (id) DEFERRABLE INITIALLY DEFERRED)";

    fn new() -> impl Future<Output = Self> + Send;
    fn url(&self) -> &str;
    fn clean(self) -> impl Future<Output = ()> + Send;
    /// Runs statements on a connection of the test's own.
    fn outside(&self, sql: String) -> impl Future<Output = ()> + Send;
    /// One number, read on a connection of the test's own.
    fn count(&self, sql: String) -> impl Future<Output = i64> + Send;
    fn run(tx: &mut Tx<Self::Db>, sql: String) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// The same on the bare connection, lent once for all; errors do not stop it, the last one is returned.
    fn run_round(tx: &mut Tx<Self::Db>, sql: &[&str]) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    fn run_part(
        part: &mut Savepoint<'_, Self::Db>,
        sql: String,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    fn processed() -> &'static str;
    fn outbox() -> &'static str;
    /// Records of a large transaction.
    const MANY: i64;
    /// A connection whose transaction locks the record of every job.
    fn hold_jobs(&self) -> impl Future<Output = <Self::Db as sqlx::Database>::Connection> + Send;

    fn open(&self, connections: usize) -> impl Future<Output = Self::Store> + Send {
        async move { Self::Store::open(self.url(), connections).await.expect("the store opens") }
    }

    fn claims(&self) -> impl Future<Output = i64> + Send {
        self.count(format!("SELECT count(*) FROM {}", Self::processed()))
    }

    fn effects(&self) -> impl Future<Output = i64> + Send {
        self.count("SELECT count(*) FROM effects".into())
    }
}

pub struct Message {
    pub job: &'static str,
    pub key: Key,
    pub at: Coordinates,
    pub fingerprint: u8,
    pub scheme: &'static str,
}

pub fn message(key: &str, offset: i64) -> Message {
    let at = Coordinates { topic: "orders".into(), partition: 3, offset };
    Message {
        job: "charge",
        key: Key::new([idempotent_jobs::KeyValue::Text(key.into())]),
        at,
        fingerprint: 1,
        scheme: "v1",
    }
}

impl Message {
    pub fn claim(&self) -> Claim<'_> {
        Claim {
            job: self.job,
            key: &self.key,
            fingerprint: Fingerprint([self.fingerprint; 32]),
            scheme: self.scheme,
            group: "billing",
            at: &self.at,
        }
    }
}

/// Begins and claims; the key has to be free.
pub async fn fresh<B: Bed>(store: &B::Store, message: &Message) -> Tx<B::Db> {
    let (tx, claimed) = store.begin_and_claim(None, TERMS, message.claim(), BUDGET).await.expect("begins and claims");
    assert_eq!(claimed, Claimed::Fresh);
    tx
}

/// What a claim finds, with nothing left behind.
pub async fn found<B: Bed>(store: &B::Store, message: &Message) -> Claimed {
    let mut tx = store.begin(TERMS).await.expect("begins");
    let claimed = store.claim(&mut tx, message.claim()).await.expect("claims");
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    claimed
}

pub async fn effect<B: Bed>(tx: &mut Tx<B::Db>, id: i64) {
    B::run(tx, format!("INSERT INTO effects (id) VALUES ({id})")).await.expect("has its effect");
}

pub async fn assert_stored<B: Bed>(bed: &B, claims: i64, effects: i64) {
    assert_eq!((bed.claims().await, bed.effects().await), (claims, effects), "claims and effects in the database");
}

/// A connection is used again as the last transaction left it, so each is followed by another.
pub async fn one_trip_begins_and_claims<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for id in 1..4 {
        let seen = message(&id.to_string(), id);
        let mut tx = fresh::<B>(&store, &seen).await;
        effect::<B>(&mut tx, id).await;
        store.commit(tx, BUDGET).await.expect("commits");
        assert_stored(bed, id, id).await;
        for (fingerprint, finds_it) in [(1, true), (9, false)] {
            let again = Message { fingerprint, ..message(&id.to_string(), id) };
            let (tx, claimed) = store.begin_and_claim(None, TERMS, again.claim(), BUDGET).await.expect("claims");
            assert_eq!(claimed == Claimed::Duplicate, finds_it, "{claimed:?}");
            // The open transaction serves the next claim.
            let next = message("next", 99);
            let (tx, claimed) = store.begin_and_claim(Some(tx), TERMS, next.claim(), BUDGET).await.expect("claims");
            assert_eq!(claimed, Claimed::Fresh);
            assert_eq!(store.rollback(tx).await, Rolled::Back);
        }
        // By itself, and after a handler that failed.
        let mut tx = store.begin(TERMS).await.expect("begins");
        effect::<B>(&mut tx, 99).await;
        assert_eq!(store.rollback(tx).await, Rolled::Back);
        assert_stored(bed, id, id).await;
    }
}

pub async fn claim_and_effect_are_stored_together<B: Bed>(bed: &B) {
    let store = bed.open(2).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    assert_stored(bed, 0, 0).await;
    store.commit(tx, BUDGET).await.expect("commits");
    assert_stored(bed, 1, 1).await;
}

pub async fn ded_02_a_taken_key_is_judged_by_coordinates_scheme_and_fingerprint<B: Bed>(bed: &B) {
    let store = bed.open(2).await;
    let tx = fresh::<B>(&store, &message("[1]", 5)).await;
    store.commit(tx, BUDGET).await.expect("commits");
    let at = |offset, fingerprint, scheme| Message { fingerprint, scheme, ..message("[1]", offset) };
    assert_eq!(found::<B>(&store, &at(5, 1, "v1")).await, Claimed::Duplicate);
    assert_eq!(found::<B>(&store, &at(5, 2, "v1:amount")).await, Claimed::Duplicate, "the same message");
    assert_eq!(found::<B>(&store, &at(6, 1, "v1")).await, Claimed::Duplicate);
    assert_eq!(found::<B>(&store, &at(6, 1, "v1:amount")).await, Claimed::Unverified);
    let conflict = Claimed::Conflict { topic: "orders".into(), partition: 3, offset: 5 };
    assert_eq!(found::<B>(&store, &at(6, 2, "v1")).await, conflict);
    assert_eq!(bed.claims().await, 1);
}

pub async fn ded_03_two_jobs_claim_the_same_key<B: Bed>(bed: &B) {
    let store = bed.open(2).await;
    for job in ["charge", "notify"] {
        let tx = fresh::<B>(&store, &Message { job, ..message("[1]", 5) }).await;
        store.commit(tx, BUDGET).await.expect("commits");
    }
    assert_eq!(bed.claims().await, 2);
}

pub async fn ded_01_rollback_and_drop_free_the_key<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let message = message("[1]", 5);
    let mut tx = fresh::<B>(&store, &message).await;
    effect::<B>(&mut tx, 1).await;
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    let mut tx = fresh::<B>(&store, &message).await;
    effect::<B>(&mut tx, 1).await;
    drop(tx);
    assert_eq!(found::<B>(&store, &message).await, Claimed::Fresh);
    assert_stored(bed, 0, 0).await;
}

pub async fn db_01_a_swallowed_error_stores_all_or_nothing<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    let _ = B::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await.expect_err("a duplicate id");
    let committed = store.commit(tx, BUDGET).await;
    if B::ABORTS {
        let Err(CommitError::Swallowed { first: Some(first) }) = committed else { panic!("{committed:?}") };
        assert!(first.starts_with("23505: "), "{first}");
        assert!(!first.contains("(1)"), "no values: {first}");
        assert_stored(bed, 0, 0).await;
    } else {
        // The failed statement undid itself alone.
        committed.expect("commits");
        assert_stored(bed, 1, 1).await;
    }
}

pub async fn db_01_an_error_in_a_savepoint_is_undone_with_it<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    for id in [1, 2] {
        let mut part = tx.begin().await.expect("a savepoint");
        let done = B::run_part(&mut part, format!("INSERT INTO effects (id) VALUES ({id})")).await;
        assert_eq!(done.is_ok(), id == 2);
        if done.is_ok() {
            part.commit().await.expect("is kept");
        } else {
            part.rollback().await.expect("is undone");
        }
    }
    {
        let mut part = tx.begin().await.expect("a savepoint");
        B::run_part(&mut part, "INSERT INTO effects (id) VALUES (3)".into()).await.expect("has its effect");
        let mut inner = part.begin().await.expect("a savepoint");
        B::run_part(&mut inner, "INSERT INTO effects (id) VALUES (4)".into()).await.expect("has its effect");
        inner.commit().await.expect("is kept");
        B::run_part(&mut part, "ROLLBACK".into()).await.expect_err("refused here as well");
        // Dropped: both are undone. What was refused fails the attempt, so this one stops here.
    }
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    {
        let mut part = tx.begin().await.expect("a savepoint");
        B::run_part(&mut part, "INSERT INTO effects (id) VALUES (1)".into()).await.expect_err("a duplicate id");
    }
    store.commit(tx, BUDGET).await.expect("commits");
    assert_stored(bed, 1, 1).await;
}

/// What a handler may try, by the handle.
const ENDINGS: [&str; 5] = ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "BEGIN", "/* a */ end"];

pub async fn db_02_ending_the_transaction_by_the_handle_is_refused<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for ending in ENDINGS {
        let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
        effect::<B>(&mut tx, 1).await;
        let error = B::run(&mut tx, ending.into()).await.expect_err("refused");
        assert!(error.to_string().contains("tx.begin()"), "{error}");
        assert_eq!(B::Store::fault(&error), Fault::Lasting);
        // Returned by `?`, it is a failing attempt like any other; nothing was ended.
        assert_eq!(store.rollback(tx).await, Rolled::Back, "{ending}");

        let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
        effect::<B>(&mut tx, 1).await;
        let _ = B::run(&mut tx, ending.into()).await;
        let committed = store.commit(tx, BUDGET).await;
        assert!(matches!(committed, Err(CommitError::EndedByHandler)), "{ending}: {committed:?}");
        assert_stored(bed, 0, 0).await;
    }
}

/// What a handler may try round the handle, one statement at a time, errors ignored.
const ROUND: [&[&str]; 9] = [
    &["COMMIT"],
    &["ROLLBACK"],
    &["ROLLBACK", "BEGIN"],
    &["COMMIT", "BEGIN"],
    &["COMMIT", "INSERT INTO effects (id) VALUES (2)"],
    &["ROLLBACK", "INSERT INTO effects (id) VALUES (2)"],
    &["ROLLBACK", "BEGIN", "INSERT INTO effects (id) VALUES (2)", "COMMIT"],
    // On PostgreSQL a transaction that can write, and that COMMIT would commit without a claim.
    &["ROLLBACK", "BEGIN READ WRITE", "INSERT INTO effects (id) VALUES (2)"],
    &["COMMIT", "BEGIN READ WRITE", "INSERT INTO effects (id) VALUES (2)"],
];

pub async fn db_02_ending_the_transaction_round_the_handle_stores_nothing<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for statements in ROUND {
        for returns_ok in [true, false] {
            let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
            effect::<B>(&mut tx, 1).await;
            let _ = B::run_round(&mut tx, statements).await;
            let _ = B::run(&mut tx, "INSERT INTO effects (id) VALUES (3)".into()).await;
            if returns_ok {
                let committed = store.commit(tx, BUDGET).await;
                assert!(matches!(committed, Err(CommitError::EndedByHandler)), "{statements:?}: {committed:?}");
            } else {
                assert_eq!(store.rollback(tx).await, Rolled::EndedByHandler, "{statements:?}");
            }
            assert_stored(bed, 0, 0).await;
        }
    }
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    store.commit(tx, BUDGET).await.expect("the next attempt is not disturbed");
    assert_stored(bed, 1, 1).await;
}

pub async fn db_02_the_seal_holds_after_a_savepoint_is_rolled_back<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    let mut part = tx.begin().await.expect("a savepoint");
    part.connection().await.expect("lent");
    part.rollback().await.expect("rolls back");
    B::run_round(&mut tx, &["COMMIT"]).await.expect_err("sealed again");
    let committed = store.commit(tx, BUDGET).await;
    assert!(matches!(committed, Err(CommitError::EndedByHandler)), "{committed:?}");
    assert_stored(bed, 0, 0).await;
}

pub async fn the_bare_connection_serves_helpers<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for id in 1..=3 {
        let mut tx = fresh::<B>(&store, &message(&format!("[{id}]"), id)).await;
        tx.connection().await.expect("lent");
        let sql = format!("INSERT INTO effects (id) VALUES ({id})");
        B::run_round(&mut tx, &[&sql]).await.expect("has its effect");
        store.commit(tx, BUDGET).await.expect("commits");
    }
    assert_stored(bed, 3, 3).await;
}

pub async fn db_03_a_begin_that_was_dropped_leaves_nothing<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for round in 0..200 {
        let wait = Duration::from_micros(u64::try_from(round).expect("small") * 10);
        let _ = tokio::time::timeout(wait, store.begin(TERMS)).await;
        if round % 20 == 0 {
            assert_eq!(found::<B>(&store, &message("[1]", 5)).await, Claimed::Fresh);
        }
    }
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    store.commit(tx, BUDGET).await.expect("commits");
    assert_stored(bed, 1, 1).await;
}

pub async fn db_03_a_commit_that_was_dropped_is_decided_by_the_claim<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for round in 0..100_i64 {
        let message = message(&format!("[{round}]"), round);
        let mut tx = fresh::<B>(&store, &message).await;
        effect::<B>(&mut tx, round).await;
        let wait = Duration::from_micros(u64::try_from(round).expect("small") * 20);
        let _ = tokio::time::timeout(wait, store.commit(tx, BUDGET)).await;
        // Redelivered.
        let mut tx = store.begin(TERMS).await.expect("begins");
        if store.claim(&mut tx, message.claim()).await.expect("claims") == Claimed::Fresh {
            effect::<B>(&mut tx, round).await;
            store.commit(tx, BUDGET).await.expect("commits");
        }
    }
    assert_stored(bed, 100, 100).await;
}

pub async fn a_constraint_that_fails_at_commit_is_refused<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    B::run(&mut tx, "INSERT INTO effects (id, parent) VALUES (1, 99)".into()).await.expect("not yet checked");
    let committed = store.commit(tx, BUDGET).await;
    let Err(CommitError::Refused(StoreError { fault, .. })) = committed else { panic!("{committed:?}") };
    assert_eq!(fault, Fault::Lasting);
    assert_stored(bed, 0, 0).await;
    assert_eq!(found::<B>(&store, &message("[1]", 5)).await, Claimed::Fresh);
}

pub async fn a_handler_that_ends_at_the_last_instant_commits<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    store.commit(tx, Duration::ZERO).await.expect("commits");
    assert_stored(bed, 1, 1).await;
    let tx = store.begin(Terms { timeout: Duration::from_nanos(1), ..TERMS }).await.expect("begins");
    store.rollback(tx).await;
}

pub async fn a_savepoint_that_was_forgotten_fails_the_attempt<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    std::mem::forget(tx.begin().await.expect("a savepoint"));
    effect::<B>(&mut tx, 1).await;
    let committed = store.commit(tx, BUDGET).await;
    assert!(matches!(committed, Err(CommitError::SavepointLeft)), "{committed:?}");
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    std::mem::forget(tx.begin().await.expect("a savepoint"));
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    assert_stored(bed, 0, 0).await;
    assert_eq!(found::<B>(&store, &message("[1]", 5)).await, Claimed::Fresh);
}

/// Polls a future once and drops it, as `select!` may. Whether it was still on its way:
/// SQLite's thread is sometimes quicker than the look at it.
async fn cut<F: Future>(future: F) -> bool {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Drops the begin, commit or rollback of a savepoint on its way.
async fn cut_a_savepoint<B: Bed>(tx: &mut Tx<B::Db>, way: usize) -> bool {
    if way == 0 {
        return cut(tx.begin()).await;
    }
    let mut part = tx.begin().await.expect("a savepoint");
    match way {
        1 => cut(part.begin()).await,
        2 => cut(part.commit()).await,
        3 => cut(part.rollback()).await,
        _ => {
            let was_cut = cut(part.begin()).await;
            // sqlx counts one level too few here: this must not become a COMMIT.
            assert_eq!(part.commit().await.is_err(), was_cut, "the transaction cannot go on");
            was_cut
        }
    }
}

pub async fn db_03_a_savepoint_dropped_on_its_way_fails_the_attempt<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let message = message("[1]", 5);
    for way in 0..5 {
        for returns_ok in [true, false] {
            let mut tx = fresh::<B>(&store, &message).await;
            effect::<B>(&mut tx, 1).await;
            while !cut_a_savepoint::<B>(&mut tx, way).await {
                assert_eq!(store.rollback(tx).await, Rolled::Back);
                tx = fresh::<B>(&store, &message).await;
                effect::<B>(&mut tx, 1).await;
            }
            let error = B::run(&mut tx, "INSERT INTO effects (id) VALUES (2)".into()).await.expect_err("cannot go on");
            assert_eq!(B::Store::fault(&error), Fault::Lasting, "{error}");
            if returns_ok {
                let committed = store.commit(tx, BUDGET).await;
                let Err(CommitError::Refused(error)) = committed else { panic!("{way}: {committed:?}") };
                assert_eq!(error.fault, Fault::Lasting, "{error}");
            } else {
                assert_eq!(store.rollback(tx).await, Rolled::Back, "{way}");
            }
            assert_stored(bed, 0, 0).await;
        }
    }
    let mut tx = fresh::<B>(&store, &message).await;
    effect::<B>(&mut tx, 1).await;
    store.commit(tx, BUDGET).await.expect("the next attempt is not disturbed");
    assert_stored(bed, 1, 1).await;
}

pub async fn db_01_a_savepoint_that_cannot_open_in_another_stores_nothing<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    let mut part = tx.begin().await.expect("a savepoint");
    B::run_part(&mut part, "INSERT INTO effects (id) VALUES (1)".into()).await.expect_err("a duplicate id");
    let opened = part.begin().await.map(drop);
    assert_eq!(opened.is_err(), B::ABORTS);
    let kept = part.commit().await;
    assert_eq!(kept.is_err(), B::ABORTS, "not a COMMIT of all: {kept:?}");
    let stored = store.commit(tx, BUDGET).await.map_or(0, |()| 1);
    assert_eq!(stored == 0, B::ABORTS);
    assert_stored(bed, stored, stored).await;
}

pub async fn db_13_a_claim_waits_for_another_of_the_same_key<B: Bed>(bed: &B) {
    for (commits, expected) in [(false, Claimed::Fresh), (true, Claimed::Duplicate)] {
        let (first, second) = (bed.open(1).await, bed.open(1).await);
        let tx = fresh::<B>(&first, &message("[1]", 5)).await;
        let waiting = tokio::spawn(async move { found::<B>(&second, &message("[1]", 5)).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        if commits {
            first.commit(tx, BUDGET).await.expect("commits");
        } else {
            first.rollback(tx).await;
        }
        assert_eq!(waiting.await.expect("ends"), expected);
    }
}

pub async fn ded_11_of_two_racing_for_a_key_one_runs<B: Bed>(bed: &B) {
    const ROUNDS: i64 = 1000;
    let store = Arc::new(bed.open(2).await);
    let runs = Arc::new(AtomicUsize::new(0));
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let racer = |partition: i32| {
        let (store, runs, barrier) = (Arc::clone(&store), Arc::clone(&runs), Arc::clone(&barrier));
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let mut message = message(&format!("[{round}]"), round);
                message.at.partition = partition;
                barrier.wait().await;
                let mut tx = store.begin(TERMS).await.expect("begins");
                match store.claim(&mut tx, message.claim()).await.expect("claims") {
                    Claimed::Fresh => {
                        effect::<B>(&mut tx, round).await;
                        store.commit(tx, BUDGET).await.expect("commits");
                        runs.fetch_add(1, Ordering::SeqCst);
                    }
                    other => {
                        assert_eq!(other, Claimed::Duplicate);
                        store.rollback(tx).await;
                    }
                }
            }
        })
    };
    let (one, two) = (racer(0), racer(1));
    one.await.expect("ends");
    two.await.expect("ends");
    assert_eq!(runs.load(Ordering::SeqCst), usize::try_from(ROUNDS).expect("small"));
    assert_stored(bed, ROUNDS, ROUNDS).await;
}

pub async fn ded_08_a_handlers_own_unique_violation_is_its_own<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    let error = B::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await.expect_err("a duplicate id");
    assert_eq!(B::Store::fault(&error), Fault::Lasting);
    store.rollback(tx).await;
    let lost = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
    let wrapped: Box<dyn StdError> = Box::new(Wrapped(lost));
    assert_eq!(B::Store::fault(&*wrapped), Fault::Transient, "found through other errors");
    assert_eq!(B::Store::fault(&std::fmt::Error), Fault::Lasting, "not the database's");
}

pub async fn long_and_odd_keys_stay_apart<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let long = "k".repeat(1000);
    let keys = [
        format!("[\"{long}1\"]"),
        format!("[\"{long}2\"]"),
        "[\"é\"]".into(),
        "[\"É\"]".into(),
        "[\"e\"]".into(),
        "[\"E \"]".into(),
        "[\"E\"]".into(),
    ];
    for (offset, key) in (0..).zip(&keys) {
        let tx = fresh::<B>(&store, &message(key, offset)).await;
        store.commit(tx, BUDGET).await.expect("commits");
    }
    assert_eq!(bed.claims().await, i64::try_from(keys.len()).expect("few"));
}

pub async fn stores_that_start_at_once_migrate_once<B: Bed>(bed: &B) {
    let url: Arc<str> = bed.url().into();
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let url = Arc::clone(&url);
            tokio::spawn(async move { B::Store::open(&url, 1).await.map(drop) })
        })
        .collect();
    for start in starts {
        start.await.expect("ends").expect("opens");
    }
    bed.open(1).await;
    assert_eq!(bed.claims().await, 0);
}

const JOB: JobRow<'static> =
    JobRow { name: "charge", group: "billing", topic: "orders", key_form: "id:number", scheme: "v1", shared: false };

pub async fn a_job_name_belongs_to_one_group_and_topic<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let nothing = |_: &str, _: i32| None;
    for _ in 0..2 {
        assert!(store.register(&[JOB], &nothing).await.expect("registers").is_empty());
    }
    let other = JobRow { group: "audit", ..JOB };
    let fresh = JobRow { name: "another", ..other };
    let refusals = store.register(&[fresh, other], &nothing).await.expect("answers");
    assert_eq!(refusals.len(), 1);
    for part in ["`charge`", "`billing`", "`audit`", "share_job(\"charge\")"] {
        assert!(refusals[0].contains(part), "{part} in {}", refusals[0]);
    }
    let theirs = JobRow { group: "billing", ..fresh };
    let free = store.register(&[theirs], &nothing).await.expect("answers");
    assert!(free.is_empty(), "a refused start registers nothing");
    let shared = JobRow { shared: true, ..other };
    assert!(store.register(&[shared], &nothing).await.expect("answers").is_empty());
}

pub async fn a_changed_key_is_refused_until_the_job_is_drained<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let upto = |next: Option<i64>| move |_: &str, _: i32| next;
    assert!(store.register(&[JOB], &upto(None)).await.expect("registers").is_empty());
    let tx = fresh::<B>(&store, &message("[1]", 5)).await;
    store.commit(tx, BUDGET).await.expect("commits");
    let changed = JobRow { key_form: "id:number,op:text", ..JOB };
    for next in [None, Some(5)] {
        let refusals = store.register(&[changed], &upto(next)).await.expect("answers");
        assert!(refusals.len() == 1 && refusals[0].contains("Drain it first"), "{refusals:?}");
    }
    assert!(store.register(&[changed], &upto(Some(6))).await.expect("answers").is_empty());
    let back = store.register(&[JOB], &upto(Some(5))).await.expect("answers");
    assert_eq!(back.len(), 1, "the new key is the recorded one now");
    let rescheme = JobRow { scheme: "v1:amount", ..changed };
    assert!(store.register(&[rescheme], &upto(None)).await.expect("answers").is_empty());
}

pub async fn a_start_does_not_wait_for_ever_for_a_lock<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    assert!(store.register(&[JOB], &|_, _| None).await.expect("registers").is_empty());
    let held = bed.hold_jobs().await;
    let error = store.register(&[JobRow { scheme: "v2", ..JOB }], &|_, _| None).await.expect_err("is held");
    assert_eq!(error.fault, Fault::Transient);
    assert!(error.to_string().contains("another process or session holds a lock"), "{error}");
    drop(held);
}

pub async fn jobs_registered_at_once_are_registered_once<B: Bed>(bed: &B) {
    let store = Arc::new(bed.open(1).await);
    let starts: Vec<_> = (0..6)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let (one, two) = (JobRow { name: "one", ..JOB }, JobRow { name: "two", ..JOB });
                let jobs = if n % 2 == 0 { [one, two] } else { [two, one] };
                store.register(&jobs, &|_, _| None).await
            })
        })
        .collect();
    for start in starts {
        assert!(start.await.expect("ends").expect("registers").is_empty());
    }
}

/// An error of a handler's own that has the driver's for its source.
#[derive(Debug)]
struct Wrapped(sqlx::Error);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("charging")
    }
}

impl StdError for Wrapped {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// Declares a test for each case of the contract.
#[macro_export]
macro_rules! contract {
    ($bed:ty: $($case:ident)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::store_contract::Bed as _;
            let bed = <$bed>::new().await;
            $crate::store_contract::$case(&bed).await;
            bed.clean().await;
        }
    )+};
    ($bed:ty) => {
        $crate::contract! { $bed:
            claim_and_effect_are_stored_together
            enqueued_with_its_transaction_or_not_at_all
            enqueued_twice_before_it_is_sent_is_stored_once
            ded_02_another_message_under_a_waiting_key_is_refused
            enqueued_with_headers_tombstones_and_due_times
            what_cannot_be_a_record_is_refused
            a_savepoint_takes_its_records_with_it
            many_keys_fit_into_one_transaction
            db_01_records_that_were_taken_and_lost_fail_the_attempt
            a_savepoint_opened_by_sql_takes_no_records
            db_01_records_do_not_hide_what_the_handler_swallowed
            db_02_records_of_a_transaction_that_was_ended_are_not_stored
            one_trip_begins_and_claims
            ded_02_a_taken_key_is_judged_by_coordinates_scheme_and_fingerprint
            ded_03_two_jobs_claim_the_same_key
            ded_01_rollback_and_drop_free_the_key
            db_01_a_swallowed_error_stores_all_or_nothing
            db_01_an_error_in_a_savepoint_is_undone_with_it
            db_02_ending_the_transaction_by_the_handle_is_refused
            db_02_ending_the_transaction_round_the_handle_stores_nothing
            db_02_the_seal_holds_after_a_savepoint_is_rolled_back
            the_bare_connection_serves_helpers
            db_03_a_begin_that_was_dropped_leaves_nothing
            db_03_a_commit_that_was_dropped_is_decided_by_the_claim
            a_constraint_that_fails_at_commit_is_refused
            a_handler_that_ends_at_the_last_instant_commits
            a_savepoint_that_was_forgotten_fails_the_attempt
            db_03_a_savepoint_dropped_on_its_way_fails_the_attempt
            db_01_a_savepoint_that_cannot_open_in_another_stores_nothing
            db_13_a_claim_waits_for_another_of_the_same_key
            ded_11_of_two_racing_for_a_key_one_runs
            ded_08_a_handlers_own_unique_violation_is_its_own
            long_and_odd_keys_stay_apart
            stores_that_start_at_once_migrate_once
            a_job_name_belongs_to_one_group_and_topic
            a_changed_key_is_refused_until_the_job_is_drained
            jobs_registered_at_once_are_registered_once
            a_start_does_not_wait_for_ever_for_a_lock
            chained_transactions_keep_claim_and_effect_together
            a_claim_in_the_trip_of_a_commit_is_as_any_other
            a_claim_in_the_trip_of_a_commit_that_fails_is_not_made
            a_constraint_that_fails_between_two_chained_jobs_is_refused
            db_01_a_swallowed_error_before_a_chain_stores_all_or_nothing
            db_02_ending_the_transaction_before_a_chain_stores_nothing
            savepoints_before_a_chain_are_kept_undone_or_refused
            other_terms_end_a_chain_only_by_their_isolation
            a_chain_within_no_time_commits
            db_03_a_chain_that_was_dropped_is_decided_by_the_claim
            ded_02_claims_made_at_once_are_judged_one_by_one
            db_13_claims_wait_for_another_of_one_of_their_keys
            db_13_claims_of_the_same_keys_in_different_order_do_not_deadlock
            db_02_claims_of_jobs_that_did_not_run_do_not_survive_a_foreign_commit
            what_is_seen_is_committed
            what_disturbs_the_next_job_is_named
            dlt_02_a_dead_letter_and_its_claim_are_stored_together
            ret_01_whatever_is_decided_a_lane_is_let_go_in_order
            ret_01_a_letter_that_was_decided_on_parks_nothing_when_it_comes_again
            ret_01_what_has_no_dedup_key_is_parked_too
            con_20_a_lane_takes_in_so_many_and_says_since_when_it_is_full
            dlt_02_what_is_dead_is_known_by_every_claim
            dlt_02_what_has_no_key_is_one_letter_for_each_message
            ded_02_a_conflicts_dead_letter_leaves_the_good_claim_alone
            ded_02_another_content_runs_once_the_dead_one_is_skipped
            a_key_that_was_claimed_meanwhile_is_not_buried
            ded_05_a_redrive_takes_the_dead_claim_over_with_its_effects
            a_letter_that_gains_a_key_is_found_by_it
            a_transaction_begins_when_it_has_a_connection
            one_that_dies_again_is_the_same_letter
            dlt_02_what_dies_under_the_key_of_a_redriven_letter_is_kept_whole
            con_08_a_partition_is_its_last_owners_until_that_lets_go
            ret_01_attempts_are_kept_for_the_next_owner
            only_who_died_in_a_message_accuses_it
            con_08_who_still_runs_did_not_die
            shut_01_who_let_go_did_not_die
            ded_05_a_letter_that_runs_is_left_to_its_process
            con_10_a_run_of_a_letter_is_a_death_when_it_is_found_free_again
            a_note_goes_with_what_settles_its_message
        }
    };
}
