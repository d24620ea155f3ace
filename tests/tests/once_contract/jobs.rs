//! `once` in the handler of a job.

use std::time::Duration;

use idempotent_jobs::__private::store::{Isolation, Store, Terms};
use idempotent_jobs::{Once, once};
use tokio::sync::oneshot;

use super::dropped::poll_times;
use super::{Bed, Placed, Result, assert_stored, insert, request};

const TERMS: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(20) };
const BUDGET: Duration = Duration::from_secs(10);

async fn place<B: Bed>(tx: &mut B::Tx, id: i64) -> Result {
    place_as::<B>(tx, "a", id).await
}

async fn place_as<B: Bed>(tx: &mut B::Tx, key: &str, id: i64) -> Result {
    once(tx, "orders", key, &request(100), async |tx| B::run_in_job(tx, insert(id)).await.map(|()| Placed { id })).await
}

pub async fn in_a_job_it_is_part_of_the_jobs_transaction<B: Bed>(bed: &B) {
    let store = bed.store().await;
    let mut tx = store.begin(TERMS).await.expect("begins");
    assert!(place::<B>(&mut tx, 1).await.expect("has an answer").ran());
    store.rollback(tx).await;
    assert_stored(bed, 0, 0).await;
    for id in 2..4 {
        let mut tx = store.begin(TERMS).await.expect("begins");
        let placed = place::<B>(&mut tx, id).await.expect("has an answer");
        assert_eq!(placed, if id == 2 { Once::Ran(Placed { id: 2 }) } else { Once::Before(Placed { id: 2 }) });
        store.commit(tx, BUDGET).await.expect("commits");
        assert_stored(bed, 1, 1).await;
    }
}

pub async fn dropped_in_a_job_nothing_of_it_is_stored<B: Bed>(bed: &B) {
    let store = bed.store().await;
    let mut tx = store.begin(TERMS).await.expect("begins");
    {
        let (enter, entered) = oneshot::channel();
        let request = request(100);
        let placing = once(&mut tx, "orders", "a", &request, async |tx| {
            B::run_in_job(tx, insert(1)).await?;
            B::enqueue_in_job(tx, 1).await.expect("is held");
            enter.send(()).expect("the test waits");
            std::future::pending().await
        });
        let placing = async { placing.await as Result };
        tokio::select! {
            done = placing => panic!("{done:?}"),
            entered = entered => entered.expect("the effect begins"),
        }
    }
    assert_eq!(store.commit(tx, BUDGET).await.is_ok(), B::DROPS);
    assert_stored(bed, 0, 0).await;
    assert_eq!(bed.count(format!("SELECT count(*) FROM {}", B::outbox())).await, 0);
    let mut tx = store.begin(TERMS).await.expect("begins");
    assert!(place::<B>(&mut tx, 2).await.expect("has an answer").ran());
    store.commit(tx, BUDGET).await.expect("commits");
    assert_stored(bed, 1, 1).await;
}

/// A job's records are held in memory to the end of its transaction; a part that is undone takes its own with it.
pub async fn in_a_job_its_records_are_undone_with_it<B: Bed>(bed: &B) {
    let store = bed.store().await;
    let mut tx = store.begin(TERMS).await.expect("begins");
    B::enqueue_in_job(&mut tx, 1).await.expect("is held");
    for (id, fails) in [(2, true), (3, false)] {
        let done: Result = once(&mut tx, "orders", id, &request(100), async |tx| {
            B::enqueue_in_job(tx, id).await.expect("is held");
            if fails { Err(sqlx::Error::RowNotFound) } else { Ok(Placed { id }) }
        })
        .await;
        assert_eq!(done.is_err(), fails);
    }
    let again: Result = once(&mut tx, "orders", 3, &request(100), async |_| unreachable!()).await;
    assert!(!again.expect("has an answer").ran());
    store.commit(tx, BUDGET).await.expect("commits");
    let stored = |keys: &str| bed.count(format!("SELECT count(*) FROM {} WHERE key IN ({keys})", B::outbox()));
    assert_eq!(stored("'[1]', '[3]'").await, 2);
    assert_eq!(stored("'[2]'").await, 0);
    assert_stored(bed, 1, 0).await;
}

/// Where the rest can be committed it is, also when the driver is not yet done with undoing the part.
pub async fn db_03_dropped_anywhere_in_a_job_claim_and_effect_stay_together<B: Bed>(bed: &B) {
    let store = bed.store().await;
    let (mut times, mut ended) = (0, 0);
    while ended < 3 {
        let key = times.to_string();
        let mut tx = store.begin(TERMS).await.expect("begins");
        let polls = usize::try_from(times).expect("is not negative");
        let done = poll_times(polls, place_as::<B>(&mut tx, &key, times)).await;
        ended += usize::from(done.is_some());
        let committed = store.commit(tx, BUDGET).await;
        assert!(committed.is_ok() || !B::DROPS && done.is_none(), "after {times}: {committed:?}");
        let effects = || bed.count(format!("SELECT count(*) FROM effects WHERE id = {times}"));
        let before = effects().await;
        let mut tx = store.begin(TERMS).await.expect("begins");
        let again = place_as::<B>(&mut tx, &key, times).await.expect("has an answer");
        store.commit(tx, BUDGET).await.expect("commits");
        assert_eq!((again.ran(), effects().await), (before == 0, 1), "after {times}: {committed:?}");
        times += 1;
        assert!(times < 1000, "it never ends");
    }
    assert_stored(bed, times, times).await;
}
