//! Calls that do not come to their end, in a transaction that is committed all the same.

use std::future::{Future, pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;

use futures_util::FutureExt;
use sqlx::Transaction;
use tokio::sync::oneshot;

use super::{Bed, Result, assert_stored, insert, place, placed, request};

/// Commits what the caller wrote beside the call, with nothing of the call, or is told.
async fn commit_all_the_same<B: Bed>(bed: &B, mut tx: Transaction<'static, B::Db>) {
    B::run(&mut tx, insert(2)).await.expect("the transaction goes on");
    match tx.commit().await {
        Ok(()) => assert!(B::DROPS, "refused"),
        Err(error) => {
            assert!(!B::DROPS, "{error}");
            assert!(error.to_string().contains("dropped before its end"), "{error}");
        }
    }
    assert_stored(bed, 0, i64::from(B::DROPS)).await;
    assert!(placed(bed, "a", 3).await.ran());
    assert_stored(bed, 1, i64::from(B::DROPS) + 1).await;
}

pub async fn an_effect_dropped_midway_is_not_stored<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    {
        let (enter, entered) = oneshot::channel();
        let request = request(100);
        let placing = idempotent_jobs::once(&mut *tx, "orders", "a", &request, async |tx| {
            B::run(tx, insert(1)).await?;
            enter.send(()).expect("the test waits");
            pending().await
        });
        let placing = async { placing.await as Result };
        tokio::select! {
            done = placing => panic!("{done:?}"),
            entered = entered => entered.expect("the effect begins"),
        }
    }
    commit_all_the_same(bed, tx).await;
}

pub async fn an_effect_that_panics_is_not_stored<B: Bed>(bed: &B) {
    let mut tx = bed.begin().await;
    {
        let request = request(100);
        let placing = idempotent_jobs::once(&mut *tx, "orders", "a", &request, async |tx| {
            B::run(tx, insert(1)).await?;
            panic!("the effect panics")
        });
        let placing = async { placing.await as Result };
        AssertUnwindSafe(placing).catch_unwind().await.map(drop).expect_err("panics");
    }
    commit_all_the_same(bed, tx).await;
}

/// Polls so many times and drops; whether it came to its end.
pub(super) async fn poll_times<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Also, a commit that says that it stored the rest has stored the rest.
pub async fn db_03_dropped_anywhere_claim_and_effect_stay_together<B: Bed>(bed: &B) {
    let mut ended = 0;
    let mut times = 0;
    while ended < 3 {
        let key = times.to_string();
        let mut tx = bed.begin().await;
        B::run(&mut tx, insert(-1 - times)).await.expect("has its effect");
        let polls = usize::try_from(times).expect("is not negative");
        let done = poll_times(polls, place::<B>(&mut tx, &key, 100, times)).await;
        ended += usize::from(done.is_some());
        let committed = tx.commit().await;
        let count = async |id: i64| bed.count(format!("SELECT count(*) FROM effects WHERE id = {id}")).await;
        let effect = count(times).await;
        assert_eq!(count(-1 - times).await, i64::from(committed.is_ok()), "after {times}: {committed:?}");
        if done.is_some() {
            assert_eq!(effect, 1, "after {times}: {committed:?}");
        }
        let again = placed(bed, &key, times).await;
        assert_eq!(again.ran(), effect == 0, "after {times}: {committed:?}");
        assert_eq!(count(times).await, 1, "after {times}");
        times += 1;
        assert!(times < 1000, "it never ends");
    }
    assert_stored(bed, times, bed.count("SELECT count(*) FROM effects".into()).await).await;
}
