//! Calls of one key at once.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_jobs::Once;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Bed, Placed, Result, assert_stored, insert, placed, request};

pub async fn ded_11_of_many_racing_for_a_key_one_runs<B: Bed>(bed: &B) {
    for round in 0..5 {
        let key = format!("key {round}");
        let answers = join_all((0..8).map(|id| placed(bed, &key, id))).await;
        let ran: Vec<_> = answers.iter().filter(|answer| answer.ran()).collect();
        let [Once::Ran(answer)] = ran[..] else { panic!("one runs: {answers:?}") };
        assert!(answers.iter().all(|other| other.clone().into_answer() == *answer), "{answers:?}");
        assert_stored(bed, round + 1, round + 1).await;
    }
}

/// And gets its answer when it commits, or runs when it rolls back.
pub async fn db_13_the_second_waits_for_the_first<B: Bed>(bed: &B) {
    for commits in [true, false] {
        let key = commits.to_string();
        let (enter, entered) = oneshot::channel();
        let (leave, left) = oneshot::channel::<()>();
        let first = async {
            let mut tx = bed.begin().await;
            let done: Result = idempotent_jobs::once(&mut *tx, "orders", key.as_str(), &request(100), async |tx| {
                B::run(tx, insert(1)).await?;
                enter.send(()).expect("the second is there");
                left.await.expect("the second is there");
                Ok(Placed { id: 1 })
            })
            .await;
            assert!(done.expect("has an answer").ran());
            if commits { tx.commit().await.expect("commits") } else { tx.rollback().await.expect("rolls back") }
        };
        let second = async {
            entered.await.expect("the first is there");
            let mut second = pin!(placed(bed, &key, 2));
            assert!(timeout(Duration::from_millis(200), &mut second).await.is_err(), "it waits");
            leave.send(()).expect("the first is there");
            second.await
        };
        let ((), second) = tokio::join!(first, second);
        let expected = if commits { Once::Before(Placed { id: 1 }) } else { Once::Ran(Placed { id: 2 }) };
        assert_eq!(second, expected);
    }
    assert_stored(bed, 2, 2).await;
}
