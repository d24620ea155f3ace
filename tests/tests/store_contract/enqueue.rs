//! Records in the outbox: both the row and the record, or neither.

use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use idempotent_jobs::__private::store::{CommitError, EnqueueError, Fault, Store, StoreError, Tx};
use idempotent_jobs::{JobMessage, Outgoing, testing};

use super::{BUDGET, Bed, assert_stored, effect, fresh, message};

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "mails", key = "id", partition_by = "order", event = "placed")]
pub struct Mail {
    pub id: String,
    pub order: String,
    pub cents: i64,
}

pub fn mail(id: &str, order: &str, cents: i64) -> Mail {
    Mail { id: id.to_owned(), order: order.to_owned(), cents }
}

/// The same message with its members in another order.
#[derive(serde::Serialize, JobMessage)]
#[message(topic = "mails", key = "id", partition_by = "order", event = "placed")]
struct Liam {
    cents: i64,
    order: String,
    id: String,
}

async fn begun<B: Bed>(store: &B::Store, id: &str) -> Tx<B::Db> {
    fresh::<B>(store, &message(id, 1)).await
}

async fn waiting<B: Bed>(bed: &B, and: &str) -> i64 {
    bed.count(format!("SELECT count(*) FROM {} WHERE {and}", B::outbox())).await
}

pub async fn enqueued_with_its_transaction_or_not_at_all<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "rolled back").await;
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    assert_eq!(testing::enqueued(&tx).iter().map(Outgoing::key).collect::<Vec<_>>(), [r#"["1"]"#]);
    assert!(B::Store::told(&tx));
    store.rollback(tx).await;
    assert_eq!(waiting(bed, "true").await, 0);

    let mut tx = begun::<B>(&store, "committed").await;
    assert!(!B::Store::told(&tx));
    effect::<B>(&mut tx, 1).await;
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    tx.enqueue(&mail("2", "B", 5)).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_stored(bed, 1, 1).await;
    assert_eq!(waiting(bed, "topic = 'mails' AND event = 'placed' AND key_parts = 'id' AND state = 'ready'").await, 2);
    assert_eq!(waiting(bed, "key = '[\"1\"]' AND partition_key = 'A' AND attempts = 0 AND long_key IS NULL").await, 1);

    // In the next transaction of a chain too.
    let mut tx = begun::<B>(&store, "chained").await;
    tx.enqueue(&mail("3", "A", 5)).await.unwrap();
    let next = store.commit_and_begin(tx, BUDGET, super::TERMS).await.unwrap();
    assert_eq!(waiting(bed, "true").await, 3);
    if let Some(next) = next {
        assert!(!B::Store::told(&next));
        store.rollback(next).await;
    }
}

pub async fn enqueued_twice_before_it_is_sent_is_stored_once<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "first").await;
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();

    let mut tx = begun::<B>(&store, "second").await;
    let liam = Liam { cents: 5, order: "A".into(), id: "1".into() };
    tx.enqueue(&liam).await.unwrap();
    let many = [mail("1", "A", 5), mail("2", "A", 5), mail("2", "A", 5)];
    tx.enqueue_all(&many).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(waiting(bed, "true").await, 2);
}

pub async fn ded_02_another_message_under_a_waiting_key_is_refused<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "first").await;
    tx.enqueue(&mail("secret", "A", 10)).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    let others = [
        Outgoing::of(&mail("secret", "A", 90)).unwrap(),
        Outgoing::of(&mail("secret", "B", 10)).unwrap(),
        Outgoing::tombstone(&mail("secret", "A", 10)).unwrap(),
    ];
    for (index, other) in others.into_iter().enumerate() {
        let mut tx = begun::<B>(&store, &index.to_string()).await;
        effect::<B>(&mut tx, 1).await;
        tx.enqueue(other).await.unwrap();
        let refused = store.commit(tx, BUDGET).await.unwrap_err();
        let CommitError::Refused(StoreError { fault: Fault::Lasting, .. }) = &refused else { panic!("{refused:?}") };
        let text = refused.to_string();
        assert!(text.contains("topic mails, key hash ") && !text.contains("secret"), "{text}");
    }
    assert_eq!(waiting(bed, "true").await, 1);
    assert_stored(bed, 1, 0).await;
}

pub async fn enqueued_with_headers_tombstones_and_due_times<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "1").await;
    let of = |id: &str| Outgoing::of(&mail(id, "A", 5)).unwrap();
    tx.enqueue(of("1").header("tenant", "acme").header("raw", [0xff, 0])).await.unwrap();
    tx.enqueue(Outgoing::tombstone(&mail("2", "A", 5)).unwrap()).await.unwrap();
    tx.enqueue(of("3").after(Duration::from_secs(3600))).await.unwrap();
    tx.enqueue(of("4").deliver_at(SystemTime::now() + Duration::from_secs(3600))).await.unwrap();
    tx.enqueue(of("5").after(Duration::MAX)).await.unwrap();
    tx.enqueue(of("6").unordered()).await.unwrap();
    let long = "x".repeat(600);
    tx.enqueue(of(&long)).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(waiting(bed, "payload IS NULL AND key = '[\"2\"]'").await, 1);
    assert_eq!(waiting(bed, "state = 'later' AND due_at IS NOT NULL").await, 3);
    assert_eq!(waiting(bed, "NOT ordered AND key = '[\"6\"]'").await, 1);
    assert_eq!(waiting(bed, &format!("key LIKE 'sha256:%' AND long_key = '[\"{long}\"]'")).await, 1);
    assert_eq!(waiting(bed, "true").await, 7);
}

pub async fn what_cannot_be_a_record_is_refused<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "1").await;
    let of = |order: &str| Outgoing::of(&mail("1", order, 5)).unwrap();
    for (outgoing, why) in [
        (of("A").header("event", "x"), "the header `event` is made from"),
        (of("A").header("", "x"), "a header's name is empty"),
        (of("A").header("a\0b", "x"), "a header's name is empty or has a NUL"),
        (of("A\0B"), "its Kafka message key has a NUL"),
    ] {
        let refused = tx.enqueue(outgoing).await.unwrap_err().to_string();
        assert!(refused.starts_with("topic mails: ") && refused.contains(why), "{refused}");
    }
    // Nothing was sent to the database: the transaction is as good as before.
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(waiting(bed, "true").await, 1);
}

pub async fn a_savepoint_takes_its_records_with_it<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "1").await;
    let mut part = tx.begin().await.unwrap();
    part.enqueue(&mail("undone", "A", 5)).await.unwrap();
    part.rollback().await.unwrap();
    let mut part = tx.begin().await.unwrap();
    part.enqueue(&mail("dropped", "A", 5)).await.unwrap();
    drop(part);
    let mut part = tx.begin().await.unwrap();
    part.enqueue(&mail("kept", "A", 5)).await.unwrap();
    part.commit().await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(waiting(bed, "key = '[\"kept\"]'").await, 1);
    assert_eq!(waiting(bed, "true").await, 1);
}

pub async fn db_01_records_do_not_hide_what_the_handler_swallowed<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "1").await;
    effect::<B>(&mut tx, 1).await;
    let _ = B::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await;
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    let committed = store.commit(tx, BUDGET).await;
    if B::ABORTS {
        assert!(matches!(committed, Err(CommitError::Swallowed { first: Some(_) })), "{committed:?}");
        assert_stored(bed, 0, 0).await;
        assert_eq!(waiting(bed, "true").await, 0);
    } else {
        committed.unwrap();
        assert_eq!(waiting(bed, "true").await, 1);
    }
}

pub async fn db_02_records_of_a_transaction_that_was_ended_are_not_stored<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for round in [&["ROLLBACK"][..], &["ROLLBACK", "BEGIN"], &["COMMIT"]] {
        let mut tx = begun::<B>(&store, "1").await;
        let _ = B::run_round(&mut tx, round).await;
        tx.enqueue(&mail("1", "A", 5)).await.unwrap();
        let committed = store.commit(tx, BUDGET).await;
        let told = matches!(committed, Err(CommitError::EndedByHandler | CommitError::Swallowed { .. }));
        assert!(told, "{round:?}: {committed:?}");
        assert_stored(bed, 0, 0).await;
        assert_eq!(waiting(bed, "true").await, 0, "{round:?}");
    }
}

/// Whatever was answered with `Ok` is stored with the rest, or nothing is.
pub async fn db_01_records_that_were_taken_and_lost_fail_the_attempt<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "0").await;
    tx.enqueue(&mail("taken", "A", 5)).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();

    // A conflict among many, which shows before the end, and is swallowed.
    let mut tx = begun::<B>(&store, "1").await;
    tx.enqueue(&mail("taken", "A", 6)).await.unwrap();
    let many: Vec<Mail> = (0..1_000).map(|id| mail(&id.to_string(), "A", 5)).collect();
    assert!(matches!(tx.enqueue_all(&many).await, Err(EnqueueError::Conflict { .. })));
    let committed = store.commit(tx, BUDGET).await.unwrap_err();
    assert!(committed.to_string().contains("not all are stored"), "{committed}");

    // The future that stores a thousand is dropped on its way.
    let mut tx = begun::<B>(&store, "2").await;
    let (last, most) = many.split_last().unwrap();
    tx.enqueue_all(most).await.unwrap();
    assert!(tx.enqueue(last).now_or_never().is_none(), "it waits for the database");
    let committed = store.commit(tx, BUDGET).await.unwrap_err();
    assert!(committed.to_string().contains("was dropped before its end"), "{committed}");
    assert_eq!(waiting(bed, "true").await, 1);
    assert_stored(bed, 1, 0).await;
}

pub async fn a_savepoint_opened_by_sql_takes_no_records<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "1").await;
    tx.enqueue(&mail("1", "A", 5)).await.unwrap();
    B::run(&mut tx, "SAVEPOINT a".into()).await.unwrap();
    assert!(matches!(tx.enqueue(&mail("2", "A", 5)).await, Err(EnqueueError::Savepoint)));
    B::run(&mut tx, "ROLLBACK TO SAVEPOINT a".into()).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(waiting(bed, "key = '[\"1\"]'").await, 1);
    assert_eq!(waiting(bed, "true").await, 1);
}

/// 200,000 locks in one transaction would exhaust PostgreSQL's table of locks.
pub async fn many_keys_fit_into_one_transaction<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = begun::<B>(&store, "1").await;
    let many: Vec<Mail> = (0..B::MANY).map(|id| mail(&id.to_string(), &id.to_string(), 5)).collect();
    tx.enqueue_all(&many).await.unwrap();
    assert!(testing::enqueued(&tx).len() < 1_000, "they are not all kept in memory");
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(waiting(bed, "true").await, B::MANY);
    assert_eq!(bed.count(format!("SELECT count(DISTINCT shard) FROM {}", B::outbox())).await, 32);
    // Of one partition key in the order given.
    let disorder = format!(
        "SELECT count(*) FROM (SELECT CAST(partition_key AS integer) - lag(CAST(partition_key AS integer)) OVER (ORDER BY id) AS step FROM {}) AS s WHERE step <> 1",
        B::outbox()
    );
    assert_eq!(bed.count(disorder).await, 0);
}
