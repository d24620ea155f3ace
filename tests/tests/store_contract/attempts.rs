//! What outlives a process: attempts that failed, and who owns a partition.

use std::time::Duration;

use idempotent_jobs::__private::store::{Attempted, Note, Redrive, Redriven, Store, Taken, Taking, Tried};
use idempotent_jobs::{Coordinates, Headers, Reason};

use super::{BUDGET, Bed, Message, asked, bury, fresh, message};

const MINUTE: Duration = Duration::from_secs(60);
/// Nothing that lies further behind killed an owner.
const SPAN: i64 = 10_000;

fn table<B: Bed>(name: &str) -> String {
    B::processed().replace("processed", name)
}

async fn rows<B: Bed>(bed: &B, name: &str) -> i64 {
    bed.count(format!("SELECT count(*) FROM {}", table::<B>(name))).await
}

fn plain(at: &Coordinates, payload: &str) -> idempotent_jobs::Message {
    let payload = Some(payload.into());
    idempotent_jobs::Message {
        coordinates: at.clone(),
        key: None,
        payload,
        headers: Headers::new(Vec::new()),
        timestamp: None,
    }
}

async fn note<B: Bed>(store: &B::Store, seen: &Message, note: Note<'_>) {
    let message = plain(&seen.at, "{}");
    let tried = Tried { group: "billing", job: seen.job, message: &message };
    store.note(&tried, note).await.expect("is noted");
}

async fn take<B: Bed>(store: &B::Store, owner: &str, offset: i64) -> Taken {
    let from = Coordinates { offset, ..message("", 0).at };
    let process = owner.split_inclusive('/').next().expect("a process and its assignment");
    let mut taken = store.take_over("billing", process, &[Taking { from: &from, owner }]).await.expect("is taken over");
    assert_eq!(taken.len(), 1);
    taken.remove(0)
}

async fn let_go<B: Bed>(store: &B::Store, owner: &str) {
    let from = message("", 0).at;
    store.let_go("billing", &[Taking { from: &from, owner }]).await.expect("is let go");
}

/// As if all owners had taken their partitions over so much earlier.
async fn age_owners<B: Bed>(bed: &B, seconds: u32) {
    let since = match B::Store::CHAINS {
        true => format!("since - interval '{seconds} seconds'"),
        false => format!("strftime('%Y-%m-%dT%H:%M:%fZ', since, '-{seconds} seconds')"),
    };
    bed.outside(format!("UPDATE {} SET since = {since}", table::<B>("owners"))).await;
}

fn waits(owner: &str, failures: u32, wait: Duration) -> Note<'_> {
    Note::Waits { owner, failures, wait, error: Some("the handler says no\0"), survived: false }
}

fn survived(owner: &str) -> Note<'_> {
    Note::Waits { owner, failures: 2, wait: MINUTE, error: None, survived: true }
}

/// One that slept and wakes does not take the row of the one that came after it.
pub async fn con_08_a_partition_is_its_last_owners_until_that_lets_go<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    assert_eq!(take::<B>(&store, "a/1", 5).await.deaths, 0);
    assert_eq!(take::<B>(&store, "b/1", 5).await.deaths, 1);
    let_go::<B>(&store, "a/1").await;
    let_go::<B>(&store, "b/2").await;
    assert_eq!(rows(bed, "owners").await, 1, "neither is its owner");
    assert_eq!(take::<B>(&store, "b/2", 5).await.deaths, 1, "the same process, which lives");
    assert_eq!(take::<B>(&store, "c/1", 5).await.deaths, 2);
    assert_eq!(take::<B>(&store, "d/1", 6).await.deaths, 3, "it got on a little");
    assert_eq!(take::<B>(&store, "d/2", 6 + SPAN).await.deaths, 0, "it got on, and lives");
    assert_eq!(take::<B>(&store, "e/1", 7 + SPAN).await.deaths, 1);
    age_owners(bed, 599).await;
    assert_eq!(take::<B>(&store, "f/1", 8 + SPAN).await.deaths, 2);
    age_owners(bed, 600).await;
    assert_eq!(take::<B>(&store, "g/1", 9 + SPAN).await.deaths, 1, "it lived long");
    let_go::<B>(&store, "g/1").await;
    assert_eq!(take::<B>(&store, "h/1", 9 + SPAN).await.deaths, 0);

    let other = Coordinates { partition: 4, ..message("", 6).at };
    let mine = message("", 7).at;
    let both = [&mine, &other].map(|from| Taking { from, owner: "f/1" });
    let taken = store.take_over("billing", "f/", &both).await.expect("both are taken over");
    assert_eq!(taken.iter().map(|taken| taken.deaths).collect::<Vec<_>>(), [1, 0]);
    store.let_go("billing", &both).await.expect("both are let go");
    assert_eq!(rows(bed, "owners").await, 0);
}

pub async fn ret_01_attempts_are_kept_for_the_next_owner<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 7);
    note::<B>(&store, &seen, waits("a/1", 2, MINUTE)).await;
    note::<B>(&store, &seen, waits("b/1", 1, MINUTE)).await;
    let [Attempted { offset: 7, failures: 2, deaths: 0, runs: false, wait, job, .. }] =
        &take::<B>(&store, "c/1", 5).await.attempts[..]
    else {
        panic!("one, with the higher count")
    };
    assert!(job == "charge" && *wait <= MINUTE && *wait > MINUTE / 2, "{wait:?}");
    let attempts = take::<B>(&store, "c/2", 7).await.attempts;
    assert!(attempts[0].is(&plain(&seen.at, "{}")) && !attempts[0].is(&plain(&seen.at, "{ }")));

    // Of a topic that was made anew.
    let message = plain(&seen.at, "{ }");
    let tried = Tried { group: "billing", job: "charge", message: &message };
    store.note(&tried, waits("c/2", 1, Duration::ZERO)).await.expect("is noted");
    let attempts = take::<B>(&store, "c/3", 7).await.attempts;
    assert!(
        attempts[0].is(&message) && (attempts[0].failures, attempts[0].wait) == (1, Duration::ZERO),
        "{attempts:?}"
    );

    note::<B>(&store, &seen, waits("c/3", 1, Duration::MAX)).await;
    assert_eq!(take::<B>(&store, "d/1", 8).await.attempts, []);
    assert_eq!(rows(bed, "attempts").await, 0, "it lies below the position");
    note::<B>(&store, &seen, waits("d/1", 1, MINUTE)).await;
    note::<B>(&store, &seen, Note::Settled).await;
    assert_eq!(rows(bed, "attempts").await, 0);
}

async fn deaths<B: Bed>(store: &B::Store, owner: &str) -> (u32, u32, bool) {
    let attempts = take::<B>(store, owner, 5).await.attempts;
    (attempts[0].deaths, attempts[0].failures, attempts[0].runs)
}

pub async fn only_who_died_in_a_message_accuses_it<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let seen = message("[1]", 7);
    take::<B>(&store, "a/1", 5).await;
    note::<B>(&store, &seen, waits("a/1", 1, MINUTE)).await;
    note::<B>(&store, &seen, Note::Runs("a/1")).await;
    assert_eq!(deaths::<B>(&store, "b/1").await, (1, 1, false));
    assert_eq!(deaths::<B>(&store, "c/1").await, (1, 1, false), "once");
    note::<B>(&store, &seen, Note::Runs("c/1")).await;
    assert_eq!(deaths::<B>(&store, "c/2").await, (1, 1, false), "the process lives");
    note::<B>(&store, &seen, Note::Runs("c/2")).await;
    note::<B>(&store, &seen, waits("c/2", 2, MINUTE)).await;
    assert_eq!(deaths::<B>(&store, "d/1").await, (1, 2, false), "it was over");
    note::<B>(&store, &seen, Note::Runs("d/1")).await;
    let_go::<B>(&store, "d/1").await;
    assert_eq!(deaths::<B>(&store, "e/1").await, (1, 2, false), "it ended in order");
    note::<B>(&store, &seen, Note::Runs("e/1")).await;
    note::<B>(&store, &seen, waits("d/1", 2, MINUTE)).await;
    assert_eq!(deaths::<B>(&store, "f/1").await, (2, 2, false), "another one's late word does not hide it");
    note::<B>(&store, &seen, Note::Runs("f/1")).await;
    note::<B>(&store, &seen, survived("e/1")).await;
    assert_eq!(deaths::<B>(&store, "f/2").await, (2, 2, false), "another's survival is not its own");
    note::<B>(&store, &seen, Note::Runs("f/2")).await;
    note::<B>(&store, &seen, survived("f/2")).await;
    assert_eq!(deaths::<B>(&store, "g/1").await, (0, 2, false), "it ran alone, and the process lives");
}

/// Its owner may be asleep, or be slow to give its partition up. On SQLite nobody asks meanwhile.
pub async fn con_08_who_still_runs_did_not_die<B: Bed>(bed: &B) {
    let (sleeper, store) = (bed.open(1).await, bed.open(1).await);
    let seen = message("[1]", 7);
    take::<B>(&sleeper, "a/1", 5).await;
    note::<B>(&sleeper, &seen, Note::Runs("a/1")).await;
    let mut tx = fresh::<B>(&sleeper, &seen).await;
    sleeper.forget(&mut tx, seen.claim()).await.expect("is forgotten");
    if B::Store::CHAINS {
        assert_eq!(deaths::<B>(&store, "b/1").await, (0, 0, true));
    } else {
        let from = message("", 5).at;
        store.take_over("billing", "b/", &[Taking { from: &from, owner: "b/1" }]).await.expect_err("it is busy");
    }
    sleeper.rollback(tx).await;
    // Where another one took over meanwhile nobody knows how it ended.
    assert_eq!(deaths::<B>(&store, "c/1").await, (u32::from(!B::Store::CHAINS), 0, false));
}

/// Its budget was over, and its server still works for it. On SQLite it ends with its process.
pub async fn shut_01_who_let_go_did_not_die<B: Bed>(bed: &B) {
    let (stopped, store) = (bed.open(1).await, bed.open(1).await);
    let seen = message("[1]", 7);
    take::<B>(&stopped, "a/1", 5).await;
    note::<B>(&stopped, &seen, Note::Runs("a/1")).await;
    let mut tx = fresh::<B>(&stopped, &seen).await;
    stopped.forget(&mut tx, seen.claim()).await.expect("is forgotten");
    if B::Store::CHAINS {
        let_go::<B>(&store, "a/1").await;
        stopped.rollback(tx).await;
    } else {
        stopped.rollback(tx).await;
        let_go::<B>(&store, "a/1").await;
    }
    assert_eq!(deaths::<B>(&store, "b/1").await, (0, 0, false));
}

pub async fn ded_05_a_letter_that_runs_is_left_to_its_process<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    bury::<B>(&store, &message("[1]", 7), Reason::Exhausted).await;
    let (_, letter) = asked(bed).await;
    let none = Redriven::default();
    let note = async |process| store.note_redrive(letter.id, process).await.expect("is noted");
    assert_eq!((note("a/").await, note("b/").await, note("a/").await), (Some(none), None, Some(none)));
    assert_eq!(rows(bed, "redrives WHERE runner = 'a/' AND deaths = 0 AND free_at IS NULL").await, 1);
    store.redrives_ended("a/").await.expect("is noted");
    assert_eq!((note("b/").await, note("a/").await), (Some(none), None));
    let ended = Redrive { survived: true, failures: 2, wait: Duration::ZERO };
    assert!(!store.redrive_ended(letter.id, "a/", ended).await.expect("looks"), "it is another's");
    assert!(store.redrive_ended(letter.id, "b/", ended).await.expect("is noted"));
    assert_eq!(note("a/").await, Some(Redriven { failures: 2, ..none }));
}

/// A run that nothing is heard of, though it is over: found so twice, some seconds apart, it was a death.
pub async fn con_10_a_run_of_a_letter_is_a_death_when_it_is_found_free_again<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    bury::<B>(&store, &message("[1]", 7), Reason::Exhausted).await;
    let (_, letter) = asked(bed).await;
    let note = async |process| store.note_redrive(letter.id, process).await.expect("is noted");
    assert_eq!(note("a/").await, Some(Redriven::default()));
    let earlier = |column: &str| match B::Store::CHAINS {
        true => format!("UPDATE {} SET {column} = {column} - interval '6 seconds'", table::<B>("redrives")),
        false => format!("UPDATE {} SET {column} = {column} - 6000", table::<B>("redrives")),
    };
    bed.outside(earlier("changed_at")).await;
    assert_eq!((note("b/").await, note("b/").await), (None, None), "it may be about to say how it ended");
    bed.outside(earlier("free_at")).await;
    assert_eq!(note("b/").await, Some(Redriven { deaths: 1, failures: 0 }));
    bed.outside(earlier("changed_at")).await;
    assert_eq!(note("c/").await, None, "the same again");
}

pub async fn a_note_goes_with_what_settles_its_message<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    for (id, commits) in [(1, false), (2, true)] {
        let seen = message(&format!("[{id}]"), id);
        note::<B>(&store, &seen, waits("a/1", 1, MINUTE)).await;
        let mut tx = fresh::<B>(&store, &seen).await;
        store.forget(&mut tx, seen.claim()).await.expect("is forgotten");
        if commits {
            store.commit(tx, BUDGET).await.expect("commits");
        } else {
            store.rollback(tx).await;
        }
        assert_eq!(rows(bed, "attempts").await, 1, "that of the one that was rolled back");
    }
    bury::<B>(&store, &message("[1]", 1), Reason::Exhausted).await;
    assert_eq!(rows(bed, "attempts").await, 0, "with its dead letter");
}
