//! Lanes that several processes work on: where more than one transaction can be open.

use std::time::Duration;

use idempotent_jobs::__private::store::{
    Access, Buried, Claimed, Fault, Filter, Isolation, LetterState, Parking, Store, StoreError, Terms, open_letters,
};

use super::letters::{asked, letters};
use super::parked::{comes, dies, of, runs};
use super::{BUDGET, Bed, TERMS};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// Whoever runs the last letter of a lane decides, when it commits, what becomes of a message that comes meanwhile:
/// until then it is neither run nor parked.
pub async fn ret_01_a_message_that_comes_while_the_last_letter_is_run_waits_for_its_end<B: Bed>() {
    for (isolation, commits) in LEVELS.into_iter().flat_map(|level| [(level, true), (level, false)]) {
        let bed = B::new().await;
        let (one, other) = (bed.open(1).await, bed.open(1).await);
        dies::<B>(&one, 1).await;
        let (_, letter) = asked(&bed).await;
        let mut tx = one.begin_aside(Terms { isolation, ..TERMS }).await.expect("begins");
        assert!(one.take_letter(&mut tx, letter.id).await.expect("takes").is_some());
        assert_eq!(one.supersede(&mut tx, of(1).claim()).await.expect("claims"), Claimed::Fresh);
        one.redriven(&mut tx, letter.id, None).await.expect("marks");
        let error = comes::<B>(&other, 2).await.expect_err("nobody knows yet");
        assert_eq!(error.fault, Fault::Transient, "{error}");
        let expected = if commits {
            one.commit(tx, BUDGET).await.expect("commits");
            Parking::Free
        } else {
            one.rollback(tx).await;
            Parking::Parked
        };
        assert_eq!(comes::<B>(&other, 2).await.expect("looks"), expected, "{isolation:?}");
        bed.clean().await;
    }
}

/// A message is parked between the first look of whoever runs the last letter and its lock.
pub async fn ret_01_at_every_isolation_what_is_parked_meanwhile_is_let_go<B: Bed>() {
    for isolation in LEVELS {
        let bed = B::new().await;
        let (one, other) = (bed.open(1).await, bed.open(1).await);
        dies::<B>(&one, 1).await;
        let (operator, letter) = asked(&bed).await;
        let mut tx = one.begin_aside(Terms { isolation, ..TERMS }).await.expect("begins");
        // Under the higher levels this is what it sees from now on.
        B::run(&mut tx, format!("SELECT * FROM {}", B::processed())).await.expect("reads");
        assert_eq!(comes::<B>(&other, 2).await.expect("parks"), Parking::Parked);
        let run = async {
            assert!(one.take_letter(&mut tx, letter.id).await?.is_some());
            assert_eq!(one.supersede(&mut tx, of(1).claim()).await?, Claimed::Fresh);
            one.redriven(&mut tx, letter.id, None).await
        };
        let run: Result<(), StoreError> = run.await;
        if let Err(error) = run {
            assert!(isolation != Isolation::ReadCommitted && error.fault == Fault::Transient, "{isolation:?}: {error}");
            one.rollback(tx).await;
            let lanes = operator.parked().await.expect("lists");
            assert_eq!((lanes.len(), lanes[0].waiting), (1, 1), "nothing happened");
            assert!(runs::<B>(&one, letter.id, 1, true).await, "its next try sees it");
        } else {
            one.commit(tx, BUDGET).await.expect("commits");
        }
        let states: Vec<_> = letters(&bed).await.into_iter().map(|letter| letter.state).collect();
        assert_eq!(states, [LetterState::Redriven, LetterState::Requested], "{isolation:?}");
        bed.clean().await;
    }
}

/// Messages come, heads are run and fail, and an operator skips what waits: nobody waits for another in a circle, the
/// order holds, and in the end nothing waits.
pub async fn ret_01_a_lane_that_many_work_on_comes_to_its_end<B: Bed>(bed: &B) {
    const MESSAGES: i64 = 80;
    let first = bed.open(1).await;
    dies::<B>(&first, 0).await;
    let parking = async {
        let mut offset = 1;
        while offset < MESSAGES {
            match comes::<B>(&first, offset).await {
                // It is run, and dies.
                Ok(Parking::Free) => assert_eq!(dies::<B>(&first, offset).await, Buried::Written),
                Ok(Parking::Parked) => {}
                Ok(Parking::Full { .. }) | Err(StoreError { fault: Fault::Transient, .. }) => continue,
                other => panic!("{other:?}"),
            }
            offset += 1;
        }
    };
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    let letters = async || operator.list(&Filter::default()).await.expect("lists");
    let ends = async || {
        let all = letters().await;
        let decided = |state| matches!(state, LetterState::Redriven | LetterState::Skipped);
        i64::try_from(all.len()) == Ok(MESSAGES) && all.iter().all(|letter| decided(letter.state))
    };
    let running = async {
        let redriver = bed.open(1).await;
        let mut done = Vec::new();
        while !ends().await {
            for letter in letters().await.iter().filter(|letter| letter.state == LetterState::Requested) {
                let (offset, well) = (letter.message.coordinates.offset, letter.attempts % 2 == 0);
                if runs::<B>(&redriver, letter.id, offset, well).await && well {
                    done.push(offset);
                }
            }
        }
        done
    };
    let deciding = async {
        let from = [LetterState::Open, LetterState::Parked, LetterState::Requested];
        while !ends().await {
            for letter in letters().await {
                let changed = match letter.state {
                    LetterState::Parked | LetterState::Requested if letter.id % 7 == 0 => {
                        operator.change(letter.id, &from, LetterState::Skipped, "ann").await
                    }
                    LetterState::Open => operator.change(letter.id, &from[..1], LetterState::Requested, "ann").await,
                    _ => continue,
                };
                changed.expect("an operator is not turned away");
            }
        }
    };
    let all = async { tokio::join!(parking, running, deciding).1 };
    let done = tokio::time::timeout(Duration::from_secs(120), all).await.expect("the lane comes to its end");
    assert!(done.is_sorted() && done.len() > 40, "{done:?}");
    assert_eq!(bed.effects().await, i64::try_from(done.len()).expect("small"), "each once");
    assert_eq!(operator.parked().await.expect("lists"), []);
}
