//! The part of the contract that lets several messages share a trip or a transaction.

use std::time::Duration;

use idempotent_jobs::__private::store::{Claimed, CommitError, Rolled, Store, Terms, Tx};

use super::{BUDGET, Bed, Message, ROUND, TERMS, assert_stored, effect, found, fresh, message};

/// Commits and begins the next, in one trip where the database allows it.
async fn chained<B: Bed>(store: &B::Store, tx: Tx<B::Db>) -> Tx<B::Db> {
    chained_to::<B>(store, tx, TERMS).await
}

async fn chained_to<B: Bed>(store: &B::Store, tx: Tx<B::Db>, next: Terms) -> Tx<B::Db> {
    let opened = store.commit_and_begin(tx, BUDGET, next).await.expect("commits");
    assert_eq!(opened.is_some(), B::Store::CHAINS, "whether the next began in the same trip");
    match opened {
        Some(tx) => tx,
        None => store.begin(next).await.expect("begins"),
    }
}

async fn claimed<B: Bed>(store: &B::Store, tx: &mut Tx<B::Db>, message: &Message) {
    assert_eq!(store.claim(tx, message.claim()).await.expect("claims"), Claimed::Fresh);
}

async fn claims<B: Bed>(store: &B::Store, tx: &mut Tx<B::Db>, messages: &[Message]) -> Vec<Claimed> {
    let claims: Vec<_> = messages.iter().map(Message::claim).collect();
    store.claim_all(tx, &claims).await.expect("claims")
}

async fn seen<B: Bed>(store: &B::Store, messages: &[Message]) -> Vec<Claimed> {
    let claims: Vec<_> = messages.iter().map(Message::claim).collect();
    store.seen(&claims).await.expect("looks")
}

pub async fn chained_transactions_keep_claim_and_effect_together<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = store.begin(TERMS).await.expect("begins");
    for id in 1..=5 {
        claimed::<B>(&store, &mut tx, &message(&format!("[{id}]"), id)).await;
        effect::<B>(&mut tx, id).await;
        assert_stored(bed, id - 1, id - 1).await;
        tx = chained::<B>(&store, tx).await;
        assert_stored(bed, id, id).await;
    }
    // Begun by a chain and dropped, rolled back or not needed, nothing of it is stored.
    claimed::<B>(&store, &mut tx, &message("[6]", 6)).await;
    effect::<B>(&mut tx, 6).await;
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    let tx = fresh::<B>(&store, &message("[7]", 7)).await;
    let mut tx = chained::<B>(&store, tx).await;
    claimed::<B>(&store, &mut tx, &message("[8]", 8)).await;
    drop(tx);
    assert_stored(bed, 6, 5).await;
    let tx = fresh::<B>(&store, &message("[9]", 9)).await;
    let tx = chained::<B>(&store, tx).await;
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    assert_eq!(found::<B>(&store, &message("[6]", 6)).await, Claimed::Fresh);
    assert_stored(bed, 7, 5).await;
}

/// Commits, and claims for the next message in the same trip.
async fn claimed_ahead<B: Bed>(store: &B::Store, tx: Tx<B::Db>, message: &Message) -> Option<(Tx<B::Db>, bool)> {
    let opened = store.commit_and_claim(tx, BUDGET, TERMS, message.claim()).await.expect("commits");
    assert_eq!(opened.is_some(), B::Store::CHAINS, "whether the next began in the same trip");
    opened
}

pub async fn a_claim_in_the_trip_of_a_commit_is_as_any_other<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let long = "x".repeat(5_000);
    let keys = ["[\"it's\"]", "[\"a\\\\b\"]", "[\"\\'; COMMIT; --\"]", "[\"$1 ünï\"]", "[\"\\u0000\"]", &long];
    let mut ahead = None;
    for (id, key) in (1_i64..).zip(keys) {
        let (mut tx, claimed) = match ahead.take() {
            Some(ahead) => ahead,
            None => (fresh::<B>(&store, &message(key, id)).await, true),
        };
        assert!(claimed, "{key:.20}");
        effect::<B>(&mut tx, id).await;
        let next = keys.get(usize::try_from(id).expect("few")).map(|key| message(key, id + 1));
        match next {
            Some(next) => ahead = claimed_ahead::<B>(&store, tx, &next).await,
            None => store.commit(tx, BUDGET).await.expect("commits"),
        }
        assert_stored(bed, id, id).await;
    }
    // What they wrote is found by claims that are bound.
    for (id, key) in (1_i64..).zip(keys) {
        assert_eq!(found::<B>(&store, &message(key, id)).await, Claimed::Duplicate, "{key:.20}");
    }
    let other = Message { fingerprint: 2, ..message(keys[0], 9) };
    for (message, expected) in [
        (message(keys[1], 2), Claimed::Duplicate),
        (other, Claimed::Conflict { topic: "orders".into(), partition: 3, offset: 1 }),
    ] {
        let tx = store.begin(TERMS).await.expect("begins");
        if let Some((mut tx, claimed)) = claimed_ahead::<B>(&store, tx, &message).await {
            assert!(!claimed, "a key that is taken");
            assert_eq!(store.claim(&mut tx, message.claim()).await.expect("claims"), expected);
            assert_eq!(store.rollback(tx).await, Rolled::Back);
        }
    }
    // One that is not needed leaves no claim.
    let tx = store.begin(TERMS).await.expect("begins");
    if let Some((tx, claimed)) = claimed_ahead::<B>(&store, tx, &message("[\"unused\"]", 10)).await {
        assert!(claimed);
        drop(tx);
    }
    assert_eq!(found::<B>(&store, &message("[\"unused\"]", 10)).await, Claimed::Fresh);
    assert_stored(bed, 6, 6).await;
}

pub async fn a_claim_in_the_trip_of_a_commit_that_fails_is_not_made<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 1)).await;
    B::run(&mut tx, "INSERT INTO effects (id, parent) VALUES (1, 99)".into()).await.expect("is checked later");
    let committed = store.commit_and_claim(tx, BUDGET, TERMS, message("[2]", 2).claim()).await;
    assert!(matches!(committed, Err(CommitError::Refused(_))), "{:?}", committed.map(|_| ()));
    assert_stored(bed, 0, 0).await;
    assert_eq!(found::<B>(&store, &message("[2]", 2)).await, Claimed::Fresh);
}

pub async fn a_constraint_that_fails_between_two_chained_jobs_is_refused<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let tx = fresh::<B>(&store, &message("[1]", 1)).await;
    let mut tx = chained::<B>(&store, tx).await;
    claimed::<B>(&store, &mut tx, &message("[2]", 2)).await;
    B::run(&mut tx, "INSERT INTO effects (id, parent) VALUES (1, 99)".into()).await.expect("not yet checked");
    let committed = store.commit_and_begin(tx, BUDGET, TERMS).await;
    assert!(matches!(committed, Err(CommitError::Refused(_))), "{committed:?}");
    assert_stored(bed, 1, 0).await;
    // The next claim is not written by itself.
    let tx = fresh::<B>(&store, &message("[3]", 3)).await;
    assert_stored(bed, 1, 0).await;
    drop(tx);
    assert_eq!(found::<B>(&store, &message("[2]", 2)).await, Claimed::Fresh);
    assert_eq!(found::<B>(&store, &message("[3]", 3)).await, Claimed::Fresh);
}

pub async fn db_01_a_swallowed_error_before_a_chain_stores_all_or_nothing<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    B::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await.expect_err("a duplicate id");
    let committed = store.commit_and_begin(tx, BUDGET, TERMS).await;
    if B::ABORTS {
        let Err(CommitError::Swallowed { first: Some(first) }) = committed else { panic!("{committed:?}") };
        assert!(first.starts_with("23505: "), "{first}");
        assert_stored(bed, 0, 0).await;
    } else {
        committed.expect("commits");
        assert_stored(bed, 1, 1).await;
    }
    assert_eq!(found::<B>(&store, &message("[2]", 6)).await, Claimed::Fresh);
}

pub async fn db_02_ending_the_transaction_before_a_chain_stores_nothing<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for statements in ROUND.iter().copied().chain([&["ROLLBACK; BEGIN"] as &[&str]]) {
        let tx = fresh::<B>(&store, &message("[0]", 4)).await;
        store.rollback(tx).await;
        let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
        effect::<B>(&mut tx, 1).await;
        let _ = B::run_round(&mut tx, statements).await;
        let committed = store.commit_and_begin(tx, BUDGET, TERMS).await;
        assert!(matches!(committed, Err(CommitError::EndedByHandler)), "{statements:?}: {committed:?}");
        assert_stored(bed, 0, 0).await;
    }
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    B::run(&mut tx, "COMMIT".into()).await.expect_err("refused");
    let committed = store.commit_and_begin(tx, BUDGET, TERMS).await;
    assert!(matches!(committed, Err(CommitError::EndedByHandler)), "{committed:?}");
    assert_stored(bed, 0, 0).await;
}

pub async fn savepoints_before_a_chain_are_kept_undone_or_refused<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 1)).await;
    let mut part = tx.begin().await.expect("a savepoint");
    B::run_part(&mut part, "INSERT INTO effects (id) VALUES (1)".into()).await.expect("has its effect");
    part.commit().await.expect("is kept");
    let mut part = tx.begin().await.expect("a savepoint");
    B::run_part(&mut part, "INSERT INTO effects (id) VALUES (2)".into()).await.expect("has its effect");
    drop(part);
    // The rollback is on its way: this closes plainly.
    let next = store.commit_and_begin(tx, BUDGET, TERMS).await.expect("commits");
    assert!(next.is_none(), "the driver's depth is not known before the trip");
    assert_stored(bed, 1, 1).await;

    let mut tx = fresh::<B>(&store, &message("[2]", 2)).await;
    effect::<B>(&mut tx, 3).await;
    forget(&mut tx).await;
    let committed = store.commit_and_begin(tx, BUDGET, TERMS).await;
    assert!(matches!(committed, Err(CommitError::SavepointLeft)), "{committed:?}");
    assert_stored(bed, 1, 1).await;
    let tx = fresh::<B>(&store, &message("[2]", 2)).await;
    store.rollback(chained::<B>(&store, tx).await).await;
    assert_stored(bed, 2, 1).await;
}

#[allow(clippy::mem_forget, reason = "the mistake under test")]
async fn forget<D: idempotent_jobs::__private::store::Dialect>(tx: &mut Tx<D>) {
    std::mem::forget(tx.begin().await.expect("a savepoint"));
}

pub async fn other_terms_end_a_chain_only_by_their_isolation<B: Bed>(bed: &B) {
    use idempotent_jobs::__private::store::Isolation;
    let store = bed.open(1).await;
    let tx = fresh::<B>(&store, &message("[1]", 1)).await;
    let serializable = Terms { isolation: Isolation::Serializable, ..TERMS };
    let next = store.commit_and_begin(tx, BUDGET, serializable).await.expect("commits");
    assert!(next.is_none(), "a chain inherits the isolation");
    assert_stored(bed, 1, 0).await;
    let mut tx = fresh::<B>(&store, &message("[2]", 2)).await;
    for seconds in [3, 5, 5, 3] {
        let next = Terms { timeout: Duration::from_secs(seconds), ..TERMS };
        tx = chained_to::<B>(&store, tx, next).await;
    }
    store.rollback(tx).await;
    assert_stored(bed, 2, 0).await;
}

pub async fn a_chain_within_no_time_commits<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let tx = fresh::<B>(&store, &message("[1]", 1)).await;
    let terms = Terms { timeout: Duration::from_nanos(1), ..TERMS };
    let next = store.commit_and_begin(tx, Duration::ZERO, terms).await.expect("commits");
    assert_eq!(next.is_some(), B::Store::CHAINS, "an opening is not hurried");
    if let Some(next) = next {
        store.rollback(next).await;
    }
    assert_stored(bed, 1, 0).await;
}

pub async fn db_03_a_chain_that_was_dropped_is_decided_by_the_claim<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for round in 0..100_i64 {
        let message = message(&format!("[{round}]"), round);
        let mut tx = fresh::<B>(&store, &message).await;
        effect::<B>(&mut tx, round).await;
        let wait = Duration::from_micros(u64::try_from(round).expect("small") * 20);
        let _ = tokio::time::timeout(wait, store.commit_and_begin(tx, BUDGET, TERMS)).await;
        // Redelivered.
        let mut tx = store.begin(TERMS).await.expect("begins");
        if store.claim(&mut tx, message.claim()).await.expect("claims") == Claimed::Fresh {
            effect::<B>(&mut tx, round).await;
            store.commit(tx, BUDGET).await.expect("commits");
        }
    }
    assert_stored(bed, 100, 100).await;
}

pub async fn ded_02_claims_made_at_once_are_judged_one_by_one<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = store.begin(TERMS).await.expect("begins");
    let stored: Vec<_> = [("[\"a\"]", 1), ("[\"b\"]", 2), ("[\"c\"]", 3)].map(|(key, at)| message(key, at)).into();
    assert_eq!(claims::<B>(&store, &mut tx, &stored).await, vec![Claimed::Fresh; 3]);
    assert_eq!(claims::<B>(&store, &mut tx, &[]).await, []);
    store.commit(tx, BUDGET).await.expect("commits");
    let long = format!("[\"{}\"]", "k".repeat(1000));
    let conflict = Claimed::Conflict { topic: "orders".into(), partition: 3, offset: 2 };
    let messages = [
        message("[\"z é '\"]", 10),
        Message { fingerprint: 2, ..message("[\"b\"]", 11) },
        message(&long, 12),
        message("[\"a\"]", 13),
        Message { scheme: "v1", fingerprint: 7, ..message("[\"A\"]", i64::MAX) },
        message("[\"c\"]", 3),
    ];
    let expected = [Claimed::Fresh, conflict, Claimed::Fresh, Claimed::Duplicate, Claimed::Fresh, Claimed::Duplicate];
    assert_eq!(seen::<B>(&store, &messages).await, expected);
    let mut tx = store.begin(TERMS).await.expect("begins");
    assert_eq!(claims::<B>(&store, &mut tx, &messages).await, expected);
    effect::<B>(&mut tx, 1).await;
    store.commit(tx, BUDGET).await.expect("commits");
    assert_stored(bed, 6, 1).await;
    // Every row is that of its own message.
    for (message, _) in messages.iter().zip(&expected).filter(|(_, found)| **found == Claimed::Fresh) {
        assert_eq!(found::<B>(&store, message).await, Claimed::Duplicate);
        let other = Message { fingerprint: 9, key: message.key.clone(), at: message.at.clone(), ..*message };
        let own = Claimed::Conflict { topic: "orders".into(), partition: 3, offset: message.at.offset };
        assert_eq!(found::<B>(&store, &other).await, own);
    }
    let other_scheme = Message { scheme: "v1:amount", ..message("[\"a\"]", 20) };
    assert_eq!(seen::<B>(&store, std::slice::from_ref(&other_scheme)).await, [Claimed::Unverified]);
    let mut tx = store.begin(TERMS).await.expect("begins");
    assert_eq!(claims::<B>(&store, &mut tx, &[other_scheme]).await, [Claimed::Unverified]);
    store.rollback(tx).await;
}

pub async fn db_13_claims_wait_for_another_of_one_of_their_keys<B: Bed>(bed: &B) {
    for (commits, expected) in [(false, Claimed::Fresh), (true, Claimed::Duplicate)] {
        let (first, second) = (bed.open(1).await, bed.open(1).await);
        let tx = fresh::<B>(&first, &message("[2]", 5)).await;
        let waiting = tokio::spawn(async move {
            let mut tx = second.begin(TERMS).await.expect("begins");
            let messages = [message("[1]", 4), message("[2]", 5), message("[3]", 6)];
            let found = claims::<B>(&second, &mut tx, &messages).await;
            second.rollback(tx).await;
            found
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        if commits {
            first.commit(tx, BUDGET).await.expect("commits");
        } else {
            first.rollback(tx).await;
        }
        assert_eq!(waiting.await.expect("ends"), [Claimed::Fresh, expected, Claimed::Fresh]);
    }
}

pub async fn db_13_claims_of_the_same_keys_in_different_order_do_not_deadlock<B: Bed>(bed: &B) {
    let (one, two) = (bed.open(1).await, bed.open(1).await);
    let racer = |store: B::Store, forward: bool| {
        tokio::spawn(async move {
            let mut fresh = 0;
            for round in 0..20 {
                let mut messages: Vec<_> = (0..50).map(|n| message(&format!("[{round},{n}]"), n)).collect();
                if !forward {
                    messages.reverse();
                }
                let mut tx = store.begin(TERMS).await.expect("begins");
                let found = claims::<B>(&store, &mut tx, &messages).await;
                fresh += found.iter().filter(|found| **found == Claimed::Fresh).count();
                store.commit(tx, BUDGET).await.expect("commits");
            }
            fresh
        })
    };
    let (one, two) = (racer(one, true), racer(two, false));
    assert_eq!(one.await.expect("ends") + two.await.expect("ends"), 1000);
    assert_stored(bed, 1000, 0).await;
}

pub async fn db_02_claims_of_jobs_that_did_not_run_do_not_survive_a_foreign_commit<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for statements in ROUND {
        let mut tx = store.begin(TERMS).await.expect("begins");
        claims::<B>(&store, &mut tx, &[message("[1]", 1), message("[2]", 2)]).await;
        let _ = B::run_round(&mut tx, statements).await;
        // As when the process dies here.
        drop(tx);
        assert_stored(bed, 0, 0).await;
    }
}

pub async fn what_is_seen_is_committed<B: Bed>(bed: &B) {
    let (store, other) = (bed.open(2).await, bed.open(1).await);
    let messages = [message("[1]", 1), message("[2]", 2)];
    assert_eq!(seen::<B>(&store, &messages).await, [Claimed::Fresh, Claimed::Fresh]);
    assert_eq!(seen::<B>(&store, &[]).await, []);
    let mut tx = fresh::<B>(&other, &messages[1]).await;
    effect::<B>(&mut tx, 1).await;
    assert_eq!(seen::<B>(&store, &messages).await, [Claimed::Fresh, Claimed::Fresh], "not waited for");
    other.commit(tx, BUDGET).await.expect("commits");
    assert_eq!(seen::<B>(&store, &messages).await, [Claimed::Fresh, Claimed::Duplicate]);
    assert_stored(bed, 1, 1).await;
}

pub async fn what_disturbs_the_next_job_is_named<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let why = |tx: &Tx<B::Db>| B::Store::disturbed(tx);
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    for keeps in [true, false] {
        let part = tx.begin().await.expect("a savepoint");
        if keeps {
            part.commit().await.expect("is kept");
        }
    }
    assert_eq!(why(&tx), None);
    effect::<B>(&mut tx, 2).await;
    assert_eq!(why(&tx), None);
    let _ = tx.connection().await.expect("lent");
    assert_eq!(why(&tx), Some("it borrowed the bare connection, `tx.connection()`"));
    store.rollback(tx).await;
    for (sql, part) in [
        ("COMMIT", "tried to end"),
        ("SAVEPOINT a", "rest of the transaction"),
        ("CREATE TEMP TABLE a (b int)", "changed the session"),
    ] {
        let mut tx = store.begin(TERMS).await.expect("begins");
        let _ = B::run(&mut tx, sql.into()).await;
        let found = why(&tx).expect("disturbed");
        assert!(found.contains(part), "{found}");
        store.rollback(tx).await;
    }
    let mut tx = store.begin(TERMS).await.expect("begins");
    forget(&mut tx).await;
    assert_eq!(why(&tx), Some("it left a savepoint of `tx.begin()` open"));
    drop(tx);
    let mut tx = store.begin(TERMS).await.expect("begins");
    while !super::cut(tx.begin()).await {
        store.rollback(tx).await;
        tx = store.begin(TERMS).await.expect("begins");
    }
    assert!(why(&tx).expect("disturbed").contains("dropped on its way"));
    drop(tx);
    let mut tx = store.begin(TERMS).await.expect("begins");
    while !super::cut(B::run(&mut tx, "SELECT 1".into())).await {}
    assert_eq!(why(&tx), Some("it did not wait for the end of a statement"));
    effect::<B>(&mut tx, 3).await;
    assert_eq!(why(&tx), None, "a later one ended, and so did that");
    store.rollback(tx).await;
}
