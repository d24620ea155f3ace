//! Dead letters.

use idempotent_jobs::__private::store::{
    Access, Again, Buried, Claimed, DeadLetter, Death, Filter, Foreseen, LetterState, LetterStore, Rejection, Rolled,
    Standing, Store, open_letters,
};
use idempotent_jobs::{Coordinates, Headers, Reason};

use super::{BUDGET, Bed, Message, TERMS, assert_stored, effect, found, fresh, message};

/// What can be in a message: no text, repeated and null headers, a NUL.
pub fn odd(at: &Coordinates) -> idempotent_jobs::Message {
    let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    idempotent_jobs::Message {
        coordinates: at.clone(),
        key: Some(vec![0, 0xff, b'k']),
        payload: Some(b"{\"a\":\0\xc3\x28".to_vec()),
        headers: Headers::new(vec![
            header("trace", Some(b"1")),
            header("trace", Some(&[0xff, 0])),
            header("gone", None),
            header("empty", Some(b"")),
        ]),
        timestamp: Some(1_700_000_000_123),
    }
}

pub fn death<'a>(seen: &'a Message, message: &'a idempotent_jobs::Message, reason: Reason) -> Death<'a> {
    Death {
        group: "billing",
        job: Some(seen.job),
        message,
        claim: Some(seen.claim()),
        reason,
        error: "the handler says no\0: because",
        attempts: 3,
        copy_to: None,
        lane: None,
    }
}

pub async fn letters<B: Bed>(bed: &B) -> Vec<DeadLetter> {
    open_letters(bed.url(), Access::Change).await.expect("opens").list(&Filter::default()).await.expect("lists")
}

async fn dead_claims<B: Bed>(bed: &B) -> i64 {
    bed.count(format!("SELECT count(*) FROM {} WHERE state = 'dead'", B::processed())).await
}

pub async fn bury<B: Bed>(store: &B::Store, seen: &Message, reason: Reason) -> Buried {
    let message = odd(&seen.at);
    store.bury(&death(seen, &message, reason)).await.expect("is buried")
}

pub async fn dlt_02_a_dead_letter_and_its_claim_are_stored_together<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    assert_eq!(bury::<B>(&store, &seen, Reason::Exhausted).await, Buried::Written);
    assert_eq!((bed.claims().await, dead_claims(bed).await), (1, 1));

    let all = letters(bed).await;
    let [letter] = &all[..] else { panic!("one letter: {all:?}") };
    let sent = odd(&seen.at);
    assert_eq!(letter.message.coordinates, sent.coordinates);
    assert_eq!((&letter.message.key, &letter.message.payload), (&sent.key, &sent.payload));
    assert!(letter.message.headers == sent.headers, "{:?}", letter.message.headers);
    assert_eq!(letter.message.timestamp, sent.timestamp);
    assert_eq!((letter.job.as_deref(), &*letter.group, &*letter.reason), (Some("charge"), "billing", "exhausted"));
    assert_eq!((letter.attempts, letter.state), (3, LetterState::Open));
    assert_eq!(letter.key.as_deref(), Some(seen.key.as_str()));
    assert!(letter.error.contains("says no") && !letter.error.contains('\0'), "{}", letter.error);
    assert!(letter.died_at.elapsed().is_ok_and(|age| age.as_secs() < 60), "{:?}", letter.died_at);
}

/// Redelivered, or sent again: by every way that a claim is made.
pub async fn dlt_02_what_is_dead_is_known_by_every_claim<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    bury::<B>(&store, &seen, Reason::Terminal).await;
    for again in [message("[1]", 5), message("[1]", 9)] {
        assert_eq!(bury::<B>(&store, &again, Reason::Terminal).await, Buried::Seen(Claimed::Dead));
        assert_eq!(found::<B>(&store, &again).await, Claimed::Dead);
        let (tx, claimed) = store.begin_and_claim(None, TERMS, again.claim(), BUDGET).await.expect("claims");
        assert_eq!(claimed, Claimed::Dead);
        let (other, free) = (message("[2]", 6), Claimed::Fresh);
        store.rollback(tx).await;
        let claims = [other.claim(), again.claim()];
        assert_eq!(store.seen(&claims).await.expect("looks"), [free.clone(), Claimed::Dead]);
        let mut tx = store.begin(TERMS).await.expect("begins");
        assert_eq!(store.claim_all(&mut tx, &claims).await.expect("claims"), [free, Claimed::Dead]);
        store.rollback(tx).await;

        // In the trip of another's commit it is not made.
        let next = message(&format!("next {}", again.at.offset), again.at.offset);
        let tx = fresh::<B>(&store, &next).await;
        if let Some((tx, claimed)) = store.commit_and_claim(tx, BUDGET, TERMS, again.claim()).await.expect("commits") {
            assert!(!claimed);
            store.rollback(tx).await;
        }
    }
    assert_eq!((letters(bed).await.len(), dead_claims(bed).await), (1, 1));
}

pub async fn ded_02_a_conflicts_dead_letter_leaves_the_good_claim_alone<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let mut tx = fresh::<B>(&store, &message("[1]", 5)).await;
    effect::<B>(&mut tx, 1).await;
    store.commit(tx, BUDGET).await.expect("commits");
    let other = Message { fingerprint: 2, ..message("[1]", 6) };
    assert_eq!(bury::<B>(&store, &other, Reason::Conflict).await, Buried::Written);
    assert_eq!(bury::<B>(&store, &other, Reason::Conflict).await, Buried::Already);
    assert_eq!((letters(bed).await.len(), dead_claims(bed).await), (1, 0));
    assert_eq!(found::<B>(&store, &message("[1]", 5)).await, Claimed::Duplicate);
}

pub async fn a_key_that_was_claimed_meanwhile_is_not_buried<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let tx = fresh::<B>(&store, &message("[1]", 5)).await;
    store.commit(tx, BUDGET).await.expect("commits");
    assert_eq!(
        bury::<B>(&store, &message("[1]", 5), Reason::Exhausted).await,
        Buried::Seen(Claimed::Duplicate),
        "another process did it"
    );
    let other = Message { fingerprint: 2, ..message("[1]", 6) };
    let buried = bury::<B>(&store, &other, Reason::Exhausted).await;
    assert!(matches!(buried, Buried::Seen(Claimed::Conflict { .. })), "{buried:?}");
    assert_eq!((letters(bed).await.len(), dead_claims(bed).await, bed.claims().await), (0, 0, 1));
}

/// Without a key, and without a job.
pub async fn dlt_02_what_has_no_key_is_one_letter_for_each_message<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    for job in [Some("charge"), Some("notify"), None] {
        let message = odd(&seen.at);
        let lost = Death { job, claim: None, ..death(&seen, &message, Reason::Decode) };
        assert_eq!(store.bury(&lost).await.expect("is buried"), Buried::Written, "{job:?}");
        assert_eq!(store.bury(&lost).await.expect("is known"), Buried::Already, "{job:?}");
        // Of a topic that was made anew.
        let another = idempotent_jobs::Message { payload: None, ..odd(&seen.at) };
        let lost = Death { message: &another, ..lost };
        assert_eq!(store.bury(&lost).await.expect("is buried"), Buried::Written, "{job:?}");
    }
    assert_eq!((letters(bed).await.len(), bed.claims().await), (6, 0));

    // An assignment knows them by their coordinates, and none that has a claim.
    bury::<B>(&store, &message("[2]", 5), Reason::Terminal).await;
    let known = store.unkeyed("billing", &seen.at).await.expect("looks");
    assert_eq!(known.len(), 6);
    assert_eq!(known.iter().filter(|letter| letter.is(&odd(&seen.at))).count(), 3);
    let behind = Coordinates { offset: 6, ..seen.at.clone() };
    assert_eq!(store.unkeyed("billing", &behind).await.expect("looks"), []);
    assert_eq!(store.unkeyed("another", &seen.at).await.expect("looks"), []);

    // Redriven, it is done, whoever reads it again and cannot; what no job took may have jobs by then.
    let dead = B::processed().replace("processed", "dead_letters");
    bed.outside(format!("UPDATE {dead} SET state = 'redriven'")).await;
    let known = store.unkeyed("billing", &seen.at).await.expect("looks");
    assert_eq!((known.len(), known.iter().all(|letter| letter.job.is_some())), (4, true));
}

pub async fn asked<B: Bed>(bed: &B) -> (std::sync::Arc<dyn LetterStore>, DeadLetter) {
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    let letter = operator.list(&Filter::default()).await.expect("lists").remove(0);
    assert_eq!(operator.foresee(&letter).await.expect("looks"), Foreseen::Runs);
    let asked = operator.change(letter.id, &[LetterState::Open], LetterState::Requested, "ann").await;
    assert!(asked.expect("is asked"));
    let standings = operator.standings(&[-1, letter.id]).await.expect("looks");
    let DeadLetter { id, reason, error, .. } = letter.clone();
    assert_eq!(standings, [Standing { id, state: LetterState::Requested, reason, error }]);
    (operator, letter)
}

pub async fn ded_05_a_redrive_takes_the_dead_claim_over_with_its_effects<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    bury::<B>(&store, &seen, Reason::Exhausted).await;
    let (operator, letter) = asked(bed).await;
    let requested = store.requested(0, "billing", &["notify", "charge"], &["orders", "orders"]).await.expect("looks");
    assert_eq!(requested.iter().map(|letter| letter.id).collect::<Vec<_>>(), [letter.id]);
    assert_eq!(store.requested(0, "billing", &["notify"], &["orders"]).await.expect("looks"), [], "another's job");
    let elsewhere = store.requested(0, "billing", &["charge", "notify"], &["refunds", "orders"]).await.expect("looks");
    assert_eq!(elsewhere, [], "the job of this name reads another topic");

    // The first run fails, and everything is as it was.
    for commits in [false, true] {
        let mut tx = store.begin_aside(TERMS).await.expect("begins");
        let taken = store.take_letter(&mut tx, letter.id).await.expect("takes").expect("it is requested");
        assert!(taken.message.headers == letter.message.headers);
        assert_eq!(store.supersede(&mut tx, seen.claim()).await.expect("claims"), Claimed::Fresh);
        store.redriven(&mut tx, letter.id, None).await.expect("marks");
        effect::<B>(&mut tx, 1).await;
        if commits {
            store.commit(tx, BUDGET).await.expect("commits");
        } else {
            assert_eq!(store.rollback(tx).await, Rolled::Back);
            assert_eq!(found::<B>(&store, &seen).await, Claimed::Dead);
            assert_stored(bed, 1, 0).await;
        }
    }
    assert_stored(bed, 1, 1).await;
    assert_eq!(found::<B>(&store, &seen).await, Claimed::Duplicate);

    let mut tx = store.begin_aside(TERMS).await.expect("begins");
    assert!(store.take_letter(&mut tx, letter.id).await.expect("looks").is_none(), "once");
    assert_eq!(store.supersede(&mut tx, seen.claim()).await.expect("claims"), Claimed::Duplicate);
    store.rollback(tx).await;
    let states: Vec<_> =
        operator.history(letter.id).await.expect("reads").into_iter().map(|change| (change.state, change.by)).collect();
    assert_eq!(states, [(LetterState::Requested, Some("ann".to_owned())), (LetterState::Redriven, None)]);
    assert_eq!(operator.foresee(&letter).await.expect("looks"), Foreseen::Duplicate);
}

/// It could not be read when it died. Mended, it can, and dies of something else.
pub async fn a_letter_that_gains_a_key_is_found_by_it<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    let unread = odd(&seen.at);
    store.bury(&Death { claim: None, ..death(&seen, &unread, Reason::Decode) }).await.expect("is buried");
    let letter = letters(bed).await.remove(0);
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    let asked = operator.change(letter.id, &[LetterState::Open], LetterState::Requested, "ann").await;
    assert!(asked.expect("asks"));
    let rejection = Rejection::new(Reason::Tombstone, "nothing is in it");
    let keyed = Again { rejection: &rejection, attempts: 0, claim: Some(seen.claim()), first: None };
    assert!(store.reopen(letter.id, &keyed).await.expect("opens"));
    let again = letters(bed).await.remove(0);
    assert_eq!(
        (again.key.as_deref(), again.attempts),
        (Some(seen.key.as_str()), letter.attempts),
        "its job was not entered"
    );
    // Another content of the key does not take it over while that is undecided.
    let other = Message { fingerprint: 9, ..message("[1]", 6) };
    let mut tx = store.begin(TERMS).await.expect("begins");
    let claimed = store.supersede(&mut tx, other.claim()).await.expect("looks");
    assert!(matches!(claimed, Claimed::Conflict { .. }), "{claimed:?}");
    store.rollback(tx).await;
}

/// The time of an attempt does not run while it waits for a connection.
pub async fn a_transaction_begins_when_it_has_a_connection<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let holder = store.begin(TERMS).await.expect("begins");
    // Polled in this order: the first one waits for the slot that the second one gives back.
    let (waiting, released) = tokio::join!(biased; store.begin(TERMS), async {
        let released = std::time::Instant::now();
        store.rollback(holder).await;
        released
    });
    let tx = waiting.expect("begins");
    assert!(B::Store::since(&tx) >= released);
    store.rollback(tx).await;
}

pub async fn one_that_dies_again_is_the_same_letter<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    bury::<B>(&store, &seen, Reason::Exhausted).await;
    let (operator, letter) = asked(bed).await;
    let rejection = Rejection::new(Reason::Terminal, "no such account");
    let dies = Again { rejection: &rejection, attempts: 1, claim: Some(seen.claim()), first: None };
    assert!(store.reopen(letter.id, &dies).await.expect("opens"));
    assert!(!store.reopen(letter.id, &dies).await.expect("looks"), "it is open already");
    let again = letters(bed).await.remove(0);
    assert_eq!((again.id, again.state, &*again.reason), (letter.id, LetterState::Open, "terminal"));
    assert_eq!((again.attempts, &*again.error), (4, "no such account"));
    assert_eq!((letters(bed).await.len(), dead_claims(bed).await), (1, 1));
    let history = operator.history(letter.id).await.expect("reads");
    assert!(history[1].detail.as_deref().is_some_and(|why| why.contains("no such account")), "{history:?}");
}

/// Its content is the same as far as it is compared. The purge took the first one's key.
pub async fn dlt_02_what_dies_under_the_key_of_a_redriven_letter_is_kept_whole<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 5);
    bury::<B>(&store, &seen, Reason::Exhausted).await;
    let (operator, letter) = asked(bed).await;
    let mut tx = store.begin_aside(TERMS).await.expect("begins");
    assert!(store.take_letter(&mut tx, letter.id).await.expect("takes").is_some());
    assert_eq!(store.supersede(&mut tx, seen.claim()).await.expect("claims"), Claimed::Fresh);
    store.redriven(&mut tx, letter.id, None).await.expect("marks");
    store.commit(tx, BUDGET).await.expect("commits");
    bed.outside(format!("DELETE FROM {}", B::processed())).await;

    let later = message("[1]", 900);
    let sent = idempotent_jobs::Message {
        key: Some(b"another".to_vec()),
        payload: Some(b"another amount".to_vec()),
        headers: Headers::new(vec![("trace".to_owned(), None)]),
        timestamp: Some(1_800_000_000_000),
        ..odd(&later.at)
    };
    let buried = store.bury(&death(&later, &sent, Reason::Terminal)).await;
    assert_eq!(buried.expect("is buried"), Buried::Written);
    let again = letters(bed).await.remove(0);
    assert_eq!((again.id, again.state, &*again.reason), (letter.id, LetterState::Open, "terminal"));
    assert_eq!(again.message.coordinates, sent.coordinates);
    assert_eq!((&again.message.key, &again.message.payload), (&sent.key, &sent.payload));
    assert!(again.message.headers == sent.headers && again.message.timestamp == sent.timestamp);
    let states: Vec<_> =
        operator.history(letter.id).await.expect("reads").into_iter().map(|change| change.state).collect();
    assert_eq!(states, [LetterState::Requested, LetterState::Redriven, LetterState::Open]);
    assert_eq!(operator.foresee(&again).await.expect("looks"), Foreseen::Runs);
}

/// An operator decides between two contents of one key.
pub async fn ded_02_another_content_runs_once_the_dead_one_is_skipped<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let (wrong, right) = (message("[1]", 5), Message { fingerprint: 2, ..message("[1]", 6) });
    bury::<B>(&store, &wrong, Reason::Terminal).await;
    assert!(matches!(found::<B>(&store, &right).await, Claimed::Conflict { .. }));
    bury::<B>(&store, &right, Reason::Conflict).await;
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    let both = letters(bed).await;
    for (foreseen, claimed) in [(Foreseen::Conflict, false), (Foreseen::Runs, true)] {
        assert_eq!(operator.foresee(&both[1]).await.expect("looks"), foreseen);
        let mut tx = store.begin_aside(TERMS).await.expect("begins");
        let superseded = store.supersede(&mut tx, right.claim()).await.expect("claims");
        assert_eq!(superseded == Claimed::Fresh, claimed, "{superseded:?}");
        store.rollback(tx).await;
        let skipped = operator.change(both[0].id, &[LetterState::Open], LetterState::Skipped, "ann").await;
        assert_eq!(skipped.expect("changes"), !claimed);
    }
    assert_eq!(found::<B>(&store, &wrong).await, Claimed::Dead, "a skipped one stays skipped");
}
