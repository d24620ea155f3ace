//! What keys, requests and answers may be.

use std::collections::BTreeMap;

use idempotent_jobs::{OnceError, OnceKey, once};
use sqlx::Transaction;

use super::{Bed, Placed, Result, assert_stored, insert, placed, request};

async fn place<B: Bed>(tx: &mut Transaction<'static, B::Db>, scope: &str, key: impl OnceKey) -> Result {
    once(&mut **tx, scope, key, &(), async |tx| B::run(tx, insert(1)).await.map(|()| Placed { id: 1 })).await
}

pub async fn key_02_keys_of_other_kinds_and_scopes_stay_apart<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    for ran in [true, false] {
        let mut found = Vec::new();
        let mut see = |done: Result| found.push(done.expect("has an answer").ran());
        see(place::<B>(&mut tx, "orders", "42").await);
        see(place::<B>(&mut tx, "orders", 42).await);
        see(place::<B>(&mut tx, "orders", ("4", "2")).await);
        see(place::<B>(&mut tx, "orders", (" ", "42")).await);
        see(place::<B>(&mut tx, "orders", (4, 2)).await);
        see(place::<B>(&mut tx, "orders", (4, "2".to_owned(), true)).await);
        see(place::<B>(&mut tx, "orders", "a".repeat(5000)).await);
        see(place::<B>(&mut tx, "orders", "a".repeat(5001)).await);
        see(place::<B>(&mut tx, "orders", "\0'\\").await);
        see(place::<B>(&mut tx, "refunds", "42").await);
        see(place::<B>(&mut tx, "", "42").await);
        assert!(found.iter().all(|it| *it == ran), "{found:?}");
    }
    tx.commit().await.expect("commits");
    assert_stored(bed, 11, 11).await;
}

pub async fn key_03_an_empty_key_is_refused<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    let empty = [
        place::<B>(&mut tx, "orders", "").await,
        place::<B>(&mut tx, "orders", ("", "")).await,
        place::<B>(&mut tx, "orders", ("ann", "")).await,
    ];
    for done in empty {
        assert!(matches!(done, Err(OnceError::KeyMissing { .. })), "{done:?}");
    }
    tx.commit().await.expect("commits");
    assert_stored(bed, 0, 0).await;
}

/// JSON has no such object.
fn unspeakable() -> BTreeMap<(i32, i32), i32> {
    BTreeMap::from([((1, 2), 3)])
}

pub async fn an_answer_that_cannot_be_stored_undoes_the_effect<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    let error = once(&mut *tx, "orders", "b", &request(100), async |tx| {
        B::run(tx, insert(1)).await.map(|()| Unspeakable(unspeakable()))
    })
    .await
    .expect_err("no JSON");
    assert!(matches!(error, OnceError::Answer(_)), "{error}");
    tx.commit().await.expect("commits");
    assert_stored(bed, 0, 0).await;
    assert!(placed(bed, "b", 2).await.ran());
}

#[derive(Debug, serde::Serialize)]
struct Unspeakable(BTreeMap<(i32, i32), i32>);

impl<'de> serde::Deserialize<'de> for Unspeakable {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
        Err(serde::de::Error::custom("it was never stored"))
    }
}

pub async fn an_answer_of_another_type_is_named_without_its_value<B: Bed>(bed: &B) {
    placed(bed, "a", 4711).await;
    let mut tx = bed.begin().await;
    let done: Result<String> = once(&mut *tx, "orders", "a", &request(100), async |_| unreachable!()).await;
    let error = done.expect_err("another type");
    assert!(matches!(error, OnceError::Answer(_)), "{error}");
    assert!(error.to_string().contains("expected a string") && !error.to_string().contains("4711"), "{error}");
}

pub async fn a_request_that_has_no_json_is_refused<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    let done: Result = once(&mut *tx, "orders", "a", &unspeakable(), async |_| unreachable!()).await;
    assert!(matches!(done, Err(OnceError::Request(_))), "{done:?}");
    tx.commit().await.expect("commits");
    assert_stored(bed, 0, 0).await;
}
