//! Lanes that wait behind a dead letter.

use std::collections::VecDeque;
use std::sync::Arc;

use idempotent_jobs::__private::store::{
    Access, Again, Buried, Claimed, DeadLetter, Death, Filter, Foreseen, LetterState, LetterStore, ParkedLane, Parking,
    Rejection, Store, open_letters,
};
use idempotent_jobs::Reason;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::letters::{death, letters, odd};
use super::{BUDGET, Bed, Message, TERMS, effect, message};

pub const LANE: [u8; 32] = [7; 32];
const LIMIT: u32 = 4;

pub fn of(offset: i64) -> Message {
    message(&format!("[{offset}]"), offset)
}

/// It dies, and its lane is to wait behind it.
pub async fn dies<B: Bed>(store: &B::Store, offset: i64) -> Buried {
    let (seen, message) = (of(offset), odd(&of(offset).at));
    let death = Death { lane: Some(LANE), ..death(&seen, &message, Reason::Terminal) };
    store.bury(&death).await.expect("is buried")
}

/// It comes, and its lane may wait.
pub async fn comes<B: Bed>(
    store: &B::Store,
    offset: i64,
) -> Result<Parking, idempotent_jobs::__private::store::StoreError> {
    let (seen, message) = (of(offset), odd(&of(offset).at));
    store.park(&Death { attempts: 0, ..death(&seen, &message, Reason::Parked) }, &LANE, LIMIT).await
}

/// Runs a requested letter as a worker does; whether it was there to be taken.
pub async fn runs<B: Bed>(store: &B::Store, id: i64, offset: i64, well: bool) -> bool {
    let mut tx = store.begin_aside(TERMS).await.expect("begins");
    if store.take_letter(&mut tx, id).await.expect("looks").is_none() {
        store.rollback(tx).await;
        return false;
    }
    let seen = of(offset);
    assert_eq!(store.supersede(&mut tx, seen.claim()).await.expect("claims"), Claimed::Fresh);
    store.redriven(&mut tx, id, None).await.expect("marks");
    effect::<B>(&mut tx, offset).await;
    if well {
        store.commit(tx, BUDGET).await.expect("commits");
    } else {
        store.rollback(tx).await;
        let rejection = Rejection::new(Reason::Terminal, "still not");
        let again = Again { rejection: &rejection, attempts: 1, claim: Some(seen.claim()), first: None };
        assert!(store.reopen(id, &again).await.expect("opens"));
    }
    true
}

/// What must be, kept the simple way. A lane's letters by offset, the head in front.
#[derive(Debug, Default)]
struct Model {
    next: i64,
    waits: VecDeque<i64>,
    /// Whether the head is to be run.
    requested: bool,
    full: bool,
    done: Vec<i64>,
    skipped: Vec<i64>,
}

impl Model {
    fn leaves(&mut self, offset: i64) {
        let at = self.waits.iter().position(|other| *other == offset).expect("it waits");
        self.waits.remove(at);
        self.full = false;
        if at == 0 {
            self.requested = !self.waits.is_empty();
        }
    }

    fn state(&self, offset: i64) -> LetterState {
        match self.waits.iter().position(|other| *other == offset) {
            Some(0) if self.requested => LetterState::Requested,
            Some(0) => LetterState::Open,
            Some(_) => LetterState::Parked,
            None if self.skipped.contains(&offset) => LetterState::Skipped,
            None => LetterState::Redriven,
        }
    }
}

struct Walk<B: Bed> {
    store: B::Store,
    operator: Arc<dyn LetterStore>,
    model: Model,
}

impl<B: Bed> Walk<B> {
    async fn letters(&self) -> Vec<DeadLetter> {
        self.operator.list(&Filter::default()).await.expect("lists")
    }

    async fn id(&self, offset: i64) -> i64 {
        let all = self.letters().await;
        all.into_iter().find(|letter| letter.message.coordinates.offset == offset).expect("it is a letter").id
    }

    async fn arrives(&mut self, dies_if_run: bool) {
        let offset = self.model.next;
        let found = comes::<B>(&self.store, offset).await.expect("nobody else has the lane");
        let waiting = self.model.waits.len().saturating_sub(1);
        match (self.model.waits.is_empty(), waiting >= LIMIT as usize) {
            (true, _) => {
                assert_eq!(found, Parking::Free);
                if dies_if_run {
                    assert_eq!(dies::<B>(&self.store, offset).await, Buried::Written);
                    self.model.waits.push_back(offset);
                    self.model.requested = false;
                }
            }
            (false, true) => {
                assert!(matches!(found, Parking::Full { waiting: LIMIT, .. }), "{found:?}");
                self.model.full = true;
                return;
            }
            (false, false) => {
                assert_eq!(found, Parking::Parked);
                self.model.waits.push_back(offset);
            }
        }
        self.model.next += 1;
    }

    /// A letter comes again, to an owner that knows of the lane, and to one that ran it long since.
    async fn comes_again(&self, offset: i64) {
        let known = if self.model.done.contains(&offset) { Claimed::Duplicate } else { Claimed::Dead };
        let found = comes::<B>(&self.store, offset).await.expect("nobody else has the lane");
        let expected = if self.model.waits.is_empty() { Parking::Free } else { Parking::Seen(known.clone()) };
        assert_eq!(found, expected);
        assert_eq!(dies::<B>(&self.store, offset).await, Buried::Seen(known));
    }

    async fn asks(&mut self, offset: i64) {
        let from = [LetterState::Open, LetterState::Skipped];
        let asked = self.operator.change(self.id(offset).await, &from, LetterState::Requested, "ann").await;
        let is_open = self.model.state(offset) == LetterState::Open;
        assert_eq!(asked.expect("is asked"), is_open, "{offset}: {:?}", self.model);
        self.model.requested |= is_open;
    }

    async fn skips(&mut self, offset: i64) {
        let from = [LetterState::Open, LetterState::Requested, LetterState::Parked];
        assert!(
            self.operator.change(self.id(offset).await, &from, LetterState::Skipped, "ann").await.expect("is skipped")
        );
        self.model.skipped.push(offset);
        self.model.leaves(offset);
    }

    async fn is_run(&mut self, offset: i64, well: bool) {
        let may = self.model.state(offset) == LetterState::Requested;
        assert_eq!(runs::<B>(&self.store, self.id(offset).await, offset, well).await, may, "{:?}", self.model);
        if may && well {
            self.model.done.push(offset);
            self.model.leaves(offset);
        } else if may {
            self.model.requested = false;
        }
    }

    async fn holds(&self) {
        let all = self.letters().await;
        for letter in &all {
            let offset = letter.message.coordinates.offset;
            assert_eq!(letter.state, self.model.state(offset), "{offset}: {:?}", self.model);
            if letter.state == LetterState::Parked {
                let behind = self.id(self.model.waits[0]).await;
                let foreseen = self.operator.foresee(letter).await.expect("looks");
                assert_eq!(foreseen, Foreseen::Waits { behind });
            }
        }
        let lanes = self.operator.parked().await.expect("lists");
        let known = self.store.parked("billing", &of(0).at).await.expect("looks");
        let Some(head) = self.model.waits.front() else {
            assert_eq!((&lanes[..], &known[..]), (&[][..], &[][..]), "{:?}", self.model);
            return;
        };
        let [ParkedLane { head: id, head_requested, waiting, full_since, job, topic, partition, key, .. }] = &lanes[..]
        else {
            panic!("one lane: {lanes:?}")
        };
        assert_eq!((*id, *waiting as usize), (self.id(*head).await, self.model.waits.len() - 1), "{:?}", self.model);
        assert_eq!((full_since.is_some(), &**job, &**topic, *partition), (self.model.full, "charge", "orders", 3));
        assert_eq!(*key, odd(&of(0).at).key);
        assert_eq!(*head_requested, self.model.state(*head) == LetterState::Requested, "{:?}", self.model);
        assert_eq!(known, [("charge".to_owned(), LANE.to_vec())]);
    }
}

/// RET-01: whatever dies, comes again, is run, fails again or is skipped, in whatever order.
pub async fn ret_01_whatever_is_decided_a_lane_is_let_go_in_order<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    let mut walk = Walk::<B> { store, operator, model: Model::default() };
    let mut random = StdRng::seed_from_u64(51);
    for _ in 0..150 {
        let waits = walk.model.waits.clone();
        let some = |random: &mut StdRng| waits.get(random.random_range(0..waits.len().max(1))).copied();
        let (kind, any) = (random.random_range(0..10), some(&mut random));
        match (kind, any) {
            (0..4, _) | (_, None) => walk.arrives(random.random_range(0..4) > 0).await,
            (4, _) if walk.model.next > 0 => {
                let settled: Vec<i64> =
                    walk.model.done.iter().chain(&walk.model.skipped).chain(&waits).copied().collect();
                walk.comes_again(settled[random.random_range(0..settled.len())]).await;
            }
            (5, Some(any)) => walk.skips(any).await,
            (6, Some(any)) => walk.asks(any).await,
            (7, _) => walk.asks(waits[0]).await,
            (_, Some(any)) => {
                let any = if random.random_range(0..4) == 0 { any } else { waits[0] };
                walk.is_run(any, random.random_range(0..3) > 0).await;
            }
        }
        walk.holds().await;
    }
    while let Some(head) = walk.model.waits.front().copied() {
        walk.asks(head).await;
        walk.is_run(head, true).await;
        walk.holds().await;
    }
    let done = &walk.model.done;
    assert!(done.len() > 15 && done.is_sorted(), "{done:?}");
    assert_eq!(bed.effects().await, i64::try_from(done.len()).expect("small"), "each once");
}

/// Redelivered after its redrive, or after it was set aside; with its key, and without one.
pub async fn ret_01_a_letter_that_was_decided_on_parks_nothing_when_it_comes_again<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    for (offset, keyed) in [(1, true), (2, false)] {
        let (seen, message) = (of(offset), odd(&of(offset).at));
        let whole = Death { lane: Some(LANE), ..death(&seen, &message, Reason::Decode) };
        let lost = Death { claim: whole.claim.filter(|_| keyed), ..whole };
        assert_eq!(store.bury(&lost).await.expect("is buried"), Buried::Written);
        let again = store.bury(&lost).await.expect("is known");
        assert!(matches!(again, Buried::Already | Buried::Seen(Claimed::Dead)), "{again:?}");
        let lane = operator.parked().await.expect("lists").remove(0);
        assert!(
            operator.change(lane.head, &[LetterState::Open], LetterState::Skipped, "ann").await.expect("is skipped")
        );
        let again = store.bury(&lost).await.expect("is known");
        assert!(matches!(again, Buried::Already | Buried::Seen(Claimed::Dead)), "{again:?}");
        assert_eq!(operator.parked().await.expect("lists"), []);
        assert_eq!(comes::<B>(&store, 9).await.expect("looks"), Parking::Free);

        // Whoever wants a skipped one after all gets it run, and nobody waits for it.
        let from = [LetterState::Skipped];
        assert!(operator.change(lane.head, &from, LetterState::Requested, "ann").await.expect("is asked"));
        let rejection = Rejection::new(Reason::Terminal, "still not");
        let again = Again { rejection: &rejection, attempts: 1, claim: None, first: None };
        assert!(store.reopen(lane.head, &again).await.expect("opens"));
        assert_eq!(comes::<B>(&store, 9).await.expect("looks"), Parking::Free);
    }
}

/// What cannot be read may be readable in its turn.
pub async fn ret_01_what_has_no_dedup_key_is_parked_too<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    assert_eq!(dies::<B>(&store, 1).await, Buried::Written);
    let (seen, message) = (of(2), odd(&of(2).at));
    let unread = Death { claim: None, ..death(&seen, &message, Reason::Parked) };
    assert_eq!(store.park(&unread, &LANE, LIMIT).await.expect("parks"), Parking::Parked);
    assert_eq!(store.park(&unread, &LANE, LIMIT).await.expect("knows"), Parking::Already);
    assert_eq!(comes::<B>(&store, 3).await.expect("parks"), Parking::Parked);
    let all = letters(bed).await;
    assert_eq!(
        all.iter().map(|letter| letter.state).collect::<Vec<_>>(),
        [LetterState::Open, LetterState::Parked, LetterState::Parked]
    );
    assert!(all[1].message.payload == message.payload && all[1].message.headers == message.headers, "whole");
    assert_eq!((&*all[1].reason, all[1].attempts), ("parked", 3));

    // Other lanes, jobs, groups and partitions do not wait.
    let other = of(9);
    let here = death(&other, &message, Reason::Parked);
    for (free, lane) in [
        (here, [8; 32]),
        (Death { job: Some("notify"), ..here }, LANE),
        (Death { group: "another", ..here }, LANE),
        (Death { message: &odd(&idempotent_jobs::Coordinates { partition: 4, ..other.at.clone() }), ..here }, LANE),
    ] {
        assert_eq!(store.park(&free, &lane, LIMIT).await.expect("looks"), Parking::Free);
    }
}

/// CON-20: bounded, and it shows.
pub async fn con_20_a_lane_takes_in_so_many_and_says_since_when_it_is_full<B: Bed>(bed: &B) {
    let store = bed.open(1).await;
    let operator = open_letters(bed.url(), Access::Change).await.expect("opens");
    dies::<B>(&store, 0).await;
    for offset in 1..=i64::from(LIMIT) {
        assert_eq!(comes::<B>(&store, offset).await.expect("parks"), Parking::Parked);
    }
    let is_full = async || operator.parked().await.expect("lists")[0].full_since.is_some();
    assert!(!is_full().await);
    for _ in 0..2 {
        let found = comes::<B>(&store, 9).await.expect("looks");
        let head = operator.parked().await.expect("lists")[0].head;
        assert_eq!(found, Parking::Full { waiting: LIMIT, head });
        assert!(is_full().await);
    }
    assert_eq!(comes::<B>(&store, 2).await.expect("looks"), Parking::Seen(Claimed::Dead), "it need not wait");
    let last = letters(bed).await.last().expect("five").id;
    assert!(operator.change(last, &[LetterState::Parked], LetterState::Skipped, "ann").await.expect("is skipped"));
    assert!(!is_full().await);
    assert_eq!(comes::<B>(&store, 9).await.expect("parks"), Parking::Parked);
}
