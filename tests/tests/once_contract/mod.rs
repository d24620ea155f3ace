//! What `once` promises, whatever the database. Cases carry their ids.

#![allow(dead_code, reason = "each test target uses the part that its database needs")]

mod dropped;
mod jobs;
mod keys;
mod racing;

use std::future::Future;

use idempotent_jobs::__private::Handle;
use idempotent_jobs::__private::store::Store;
use idempotent_jobs::outbox::EnqueueError;
use idempotent_jobs::{JobMessage, Once, OnceError, Transacted};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{Database, Transaction};

pub use self::{dropped::*, jobs::*, keys::*, racing::*};

pub type Conn<B> = <<B as Bed>::Db as Database>::Connection;
pub type Result<T = Placed> = std::result::Result<Once<T>, OnceError<sqlx::Error>>;

/// A database of its own for one test, with our tables and a table `effects (id)` that nothing
/// guards: what happened twice is there twice.
pub trait Bed: Sized + Send + Sync + 'static {
    type Db: Database<Connection: Transacted>;
    type Store: Store<Tx = Self::Tx>;
    type Tx: Handle + Transacted;
    /// Whether a failed statement fails the whole transaction.
    const ABORTS: bool;
    /// Whether a transaction with a part that was dropped can be committed without it.
    const DROPS: bool;
    const EFFECTS: &'static str = "CREATE TABLE effects (id BIGINT)";

    fn new() -> impl Future<Output = Self> + Send;
    fn clean(self) -> impl Future<Output = ()> + Send;
    fn store(&self) -> impl Future<Output = Self::Store> + Send;
    /// A transaction on a connection of its own.
    fn begin(&self) -> impl Future<Output = Transaction<'static, Self::Db>> + Send;
    fn run(conn: &mut Conn<Self>, sql: String) -> impl Future<Output = std::result::Result<(), sqlx::Error>> + Send;
    fn run_in_job(tx: &mut Self::Tx, sql: String) -> impl Future<Output = std::result::Result<(), sqlx::Error>> + Send;
    fn enqueue_in_job(tx: &mut Self::Tx, id: i64)
    -> impl Future<Output = std::result::Result<(), EnqueueError>> + Send;
    /// A connection in no transaction.
    fn outside(&self) -> impl Future<Output = Conn<Self>> + Send;
    /// One number, read on a connection of its own.
    fn count(&self, sql: String) -> impl Future<Output = i64> + Send;
    fn answers() -> &'static str;
    fn outbox() -> &'static str;
}

/// An answer that tells which run of the effect gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    pub id: i64,
}

/// What a job tells of an order.
#[derive(Serialize, JobMessage)]
#[message(topic = "orders", key = "id")]
pub struct Told {
    pub id: i64,
}

pub fn insert(id: i64) -> String {
    format!("INSERT INTO effects (id) VALUES ({id})")
}

pub fn request(cents: i64) -> Value {
    json!({ "item": "tea", "cents": cents })
}

/// Places an order: the effect is a row, and its id the answer.
pub async fn place<B: Bed>(tx: &mut Transaction<'static, B::Db>, key: &str, cents: i64, id: i64) -> Result {
    idempotent_jobs::once(&mut **tx, "orders", key, &request(cents), async |tx| {
        B::run(tx, insert(id)).await.map(|()| Placed { id })
    })
    .await
}

/// The same in a transaction that is committed.
pub async fn placed<B: Bed>(bed: &B, key: &str, id: i64) -> Once<Placed> {
    let mut tx = bed.begin().await;
    let done = place::<B>(&mut tx, key, 100, id).await.expect("has an answer");
    tx.commit().await.expect("commits");
    done
}

/// What is committed: rows of `answers`, and of `effects`.
pub async fn assert_stored<B: Bed>(bed: &B, answers: i64, effects: i64) {
    let found = (
        bed.count(format!("SELECT count(*) FROM {}", B::answers())).await,
        bed.count("SELECT count(*) FROM effects".into()).await,
    );
    assert_eq!(found, (answers, effects), "answers and effects in the database");
}

pub async fn the_effect_happens_once_and_the_answer_is_the_first<B: Bed>(bed: &B) {
    assert_eq!(placed(bed, "a", 1).await, Once::Ran(Placed { id: 1 }));
    for id in 2..5 {
        assert_eq!(placed(bed, "a", id).await, Once::Before(Placed { id: 1 }));
    }
    let mut tx = bed.begin().await;
    assert!(place::<B>(&mut tx, "b", 100, 5).await.expect("has an answer").ran());
    assert!(!place::<B>(&mut tx, "b", 100, 6).await.expect("has an answer").ran(), "also in one transaction");
    tx.commit().await.expect("commits");
    assert_stored(bed, 2, 2).await;
}

pub async fn ded_01_a_rollback_frees_the_key<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    assert!(place::<B>(&mut tx, "a", 100, 1).await.expect("has an answer").ran());
    tx.rollback().await.expect("rolls back");
    assert_stored(bed, 0, 0).await;
    assert_eq!(placed(bed, "a", 2).await, Once::Ran(Placed { id: 2 }));
    assert_stored(bed, 1, 1).await;
}

pub async fn ded_02_another_request_of_the_key_is_a_conflict<B: Bed>(bed: &B) {
    placed(bed, "secret-key", 1).await;
    let mut tx = bed.begin().await;
    let error = place::<B>(&mut tx, "secret-key", 9000, 2).await.expect_err("a conflict");
    let OnceError::Conflict { scope, key_hash } = &error else { panic!("{error}") };
    assert_eq!((scope.as_str(), key_hash.len()), ("orders", 16));
    assert!(!error.to_string().contains("secret-key"), "{error}");
    // The same members in another order are the same request.
    let same = json!({ "cents": 100, "item": "tea" });
    let again: Result = idempotent_jobs::once(&mut *tx, "orders", "secret-key", &same, async |_| unreachable!()).await;
    assert_eq!(again.expect("has an answer"), Once::Before(Placed { id: 1 }));
    tx.commit().await.expect("commits");
    assert_stored(bed, 1, 1).await;
}

pub async fn an_effect_that_fails_is_undone_with_its_claim<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    B::run(&mut tx, insert(1)).await.expect("has its effect");
    for fails in ["INSERT INTO no_such_table VALUES (1)", "SELECT nothing"] {
        let failed: Result = idempotent_jobs::once(&mut *tx, "orders", "a", &request(100), async |tx| {
            B::run(tx, insert(2)).await?;
            B::run(tx, fails.into()).await.map(|()| Placed { id: 2 })
        })
        .await;
        assert!(matches!(failed, Err(OnceError::Effect(sqlx::Error::Database(_)))), "{failed:?}");
    }
    B::run(&mut tx, insert(3)).await.expect("the transaction goes on");
    tx.commit().await.expect("commits");
    assert_stored(bed, 0, 2).await;
    assert!(placed(bed, "a", 4).await.ran());
    assert_stored(bed, 1, 3).await;
}

pub async fn db_01_a_swallowed_error_stores_all_or_nothing<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    let done: Result = idempotent_jobs::once(&mut *tx, "orders", "a", &request(100), async |tx| {
        B::run(tx, insert(1)).await?;
        let _ = B::run(tx, "SELECT nothing".into()).await;
        Ok(Placed { id: 1 })
    })
    .await;
    if B::ABORTS {
        let error = done.expect_err("the whole effect is undone");
        assert!(error.to_string().contains("swallowed"), "{error}");
    } else {
        // The failed statement undid itself alone.
        assert!(done.expect("has an answer").ran());
    }
    B::run(&mut tx, insert(2)).await.expect("the transaction goes on");
    tx.commit().await.expect("commits");
    let stored = i64::from(!B::ABORTS);
    assert_stored(bed, stored, stored + 1).await;
}

/// One `once` in the effect of another: the outer one undoes both.
pub async fn a_part_holds_the_parts_within_it<B: Bed>(bed: &B) {
    for fails in [true, false] {
        let mut tx = bed.begin().await;
        let outer: Result = idempotent_jobs::once(&mut *tx, "outer", "a", &(), async |tx| {
            let inner: Result = idempotent_jobs::once(&mut *tx, "inner", "a", &(), async |tx| {
                B::run(tx, insert(1)).await.map(|()| Placed { id: 1 })
            })
            .await;
            assert!(inner.expect("has an answer").ran());
            if fails { Err(sqlx::Error::RowNotFound) } else { Ok(Placed { id: 2 }) }
        })
        .await;
        assert_eq!(outer.is_err(), fails);
        tx.commit().await.expect("commits");
    }
    assert_stored(bed, 2, 1).await;
}

pub async fn without_a_transaction_it_is_refused<B: Bed>(bed: &B) {
    let mut conn = bed.outside().await;
    let done: Result = idempotent_jobs::once(&mut conn, "orders", "a", &(), async |_| unreachable!()).await;
    let error = done.expect_err("refused");
    assert!(error.to_string().contains("begin one"), "{error}");
    assert!(matches!(error, OnceError::Store { transient: false, .. }));
    assert_stored(bed, 0, 0).await;
}

/// Declares the tests of the contract for a bed.
#[macro_export]
macro_rules! once_contract {
    ($bed:ty: $($case:ident)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::once_contract::Bed as _;
            let bed = <$bed>::new().await;
            $crate::once_contract::$case(&bed).await;
            bed.clean().await;
        }
    )+};
    ($bed:ty) => {
        $crate::once_contract! { $bed:
            the_effect_happens_once_and_the_answer_is_the_first
            ded_01_a_rollback_frees_the_key
            ded_02_another_request_of_the_key_is_a_conflict
            an_effect_that_fails_is_undone_with_its_claim
            db_01_a_swallowed_error_stores_all_or_nothing
            a_part_holds_the_parts_within_it
            without_a_transaction_it_is_refused
            ded_11_of_many_racing_for_a_key_one_runs
            db_13_the_second_waits_for_the_first
            an_effect_dropped_midway_is_not_stored
            db_03_dropped_anywhere_claim_and_effect_stay_together
            an_effect_that_panics_is_not_stored
            in_a_job_it_is_part_of_the_jobs_transaction
            dropped_in_a_job_nothing_of_it_is_stored
            in_a_job_its_records_are_undone_with_it
            db_03_dropped_anywhere_in_a_job_claim_and_effect_stay_together
            key_02_keys_of_other_kinds_and_scopes_stay_apart
            key_03_an_empty_key_is_refused
            an_answer_that_cannot_be_stored_undoes_the_effect
            an_answer_of_another_type_is_named_without_its_value
            a_request_that_has_no_json_is_refused
        }
    };
}
