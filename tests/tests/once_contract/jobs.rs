//! `once` in the handler of a job.

use std::time::Duration;

use idempotent_jobs::__private::store::{Isolation, Store, Terms};
use idempotent_jobs::{Once, once};
use tokio::sync::oneshot;

use super::{Bed, Placed, Result, assert_stored, insert, request};

const TERMS: Terms = Terms { isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(20) };
const BUDGET: Duration = Duration::from_secs(10);

async fn place<B: Bed>(tx: &mut B::Tx, id: i64) -> Result {
    once(tx, "orders", "a", &request(100), async |tx| B::run_in_job(tx, insert(id)).await.map(|()| Placed { id })).await
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
    let mut tx = store.begin(TERMS).await.expect("begins");
    assert!(place::<B>(&mut tx, 2).await.expect("has an answer").ran());
    store.commit(tx, BUDGET).await.expect("commits");
    assert_stored(bed, 1, 1).await;
}
