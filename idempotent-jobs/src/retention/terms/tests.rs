use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(100 * 60);

fn at(minutes: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000) + MINUTE * u32::try_from(minutes).expect("small")
}

fn stand(start: i64, end: i64, committed: impl Into<Option<i64>>) -> Stand {
    Stand { start, end, committed: committed.into(), read: false }
}

fn stands<const N: usize>(all: [Stand; N]) -> Stands {
    all.into_iter()
        .enumerate()
        .map(|(number, stand)| (("t".to_owned(), i32::try_from(number).expect("small")), stand))
        .collect()
}

fn in_hand<const N: usize>(numbers: [i32; N]) -> InHand {
    numbers.map(|number| ("t".to_owned(), number)).into()
}

fn is_due(terms: &Terms, stands: &Stands) -> bool {
    terms.due(stands, &in_hand([0, 1, 2])).contains("t")
}

#[test]
fn ded_04_nothing_is_due_before_the_group_came_to_the_ends_that_were_noted() {
    let mut terms = Terms::default();
    assert!(!is_due(&terms, &stands([stand(0, 0, None)])), "nothing was noted");
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 100, 90), stand(0, 0, None)]));
    assert!(!is_due(&terms, &stands([stand(0, 100, 90), stand(0, 0, None)])), "ten were not read");
    assert!(!is_due(&terms, &stands([stand(0, 100, None), stand(0, 0, None)])), "no answer is no leave");
    assert!(
        is_due(&terms, &stands([stand(0, 300, 100), stand(0, 5, None), stand(0, 7, None)])),
        "what came later is later"
    );
}

#[test]
fn what_was_read_out_stays_so_while_nothing_comes_and_nothing_is_committed() {
    let mut terms = Terms::default();
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 10, 9)]));
    // Nothing but the mark of a transaction lies there.
    terms.remember(&mut stands([Stand { read: true, ..stand(0, 10, 9) }]));
    let seen = |terms: &mut Terms, stand| {
        let mut stands = stands([stand]);
        terms.remember(&mut stands);
        is_due(terms, &stands)
    };
    assert!(seen(&mut terms, stand(10, 10, 9)), "the log is deleted by now");
    assert!(!seen(&mut terms, stand(10, 11, 9)), "something came");
    assert!(!seen(&mut terms, stand(10, 10, 9)), "and went");
    // A database that was put back may not know any more that the group began behind it all.
    terms.remember(&mut stands([Stand { read: true, ..stand(10, 10, None) }]));
    let mut again = stands([stand(10, 10, None)]);
    terms.remember(&mut again);
    assert!(again.values().all(|stand| !stand.read));
}

#[test]
fn ded_04_what_may_be_queued_of_a_deleted_log_is_waited_for() {
    let mut terms = Terms::default();
    let deleted = stands([stand(10, 10, 4), stand(10, 10, 10)]);
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 10, 4), stand(0, 10, 10)]));
    let due = |terms: &mut Terms, minutes, stands: &Stands| {
        let in_hand = terms.with_queued(at(minutes), stands, InHand::new());
        terms.due(stands, &in_hand).contains("t")
    };
    assert!(!due(&mut terms, 100, &deleted), "nobody wrote yet that it works on it");
    assert!(!due(&mut terms, 159, &deleted));
    assert!(due(&mut terms, 160, &deleted), "somebody was free in an hour");
    let more = stands([stand(10, 20, 4), stand(10, 10, 10)]);
    assert!(due(&mut terms, 170, &more), "what came later is later");
    assert!(due(&mut terms, 171, &stands([stand(10, 20, 10), stand(10, 10, 10)])), "it was read");
    assert!(!due(&mut terms, 172, &deleted), "from anew");
}

#[test]
fn a_moment_that_was_noted_stands_until_its_topic_was_swept() {
    let mut terms = Terms::default();
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 5, 4)]));
    let later = stands([stand(0, 50, 5)]);
    terms.note(at(60), WINDOW, &Times::new(), &later);
    assert!(is_due(&terms, &later));
    let [bound] = &terms.bounds("t", WINDOW, &Times::new(), &later)[..] else { panic!("one partition") };
    assert_eq!((bound.below, bound.before), (5, at(0) - WINDOW - SLACK));
    terms.swept("t");
    assert!(!is_due(&terms, &later));
}

#[test]
fn a_topic_that_was_made_anew_is_noted_anew() {
    let mut terms = Terms::default();
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 100, 90)]));
    terms.note(at(1), WINDOW, &Times::new(), &stands([stand(0, 3, 1)]));
    assert!(!is_due(&terms, &stands([stand(0, 3, 2)])));
    assert!(is_due(&terms, &stands([stand(0, 3, 3)])));
}

#[test]
fn marks_of_transactions_hold_up_nothing() {
    let mut terms = Terms::default();
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 10, 9)]));
    assert!(is_due(&terms, &stands([Stand { read: true, ..stand(0, 10, 9) }])));
}

#[test]
fn marks_are_looked_for_only_where_nothing_else_holds_up_the_topic() {
    let mut terms = Terms::default();
    let unsure = |terms: &Terms, stands: &Stands| -> Vec<i32> {
        terms.unsure(stands, &in_hand([0, 1])).into_keys().map(|(_, number)| number).collect()
    };
    let near = stands([stand(0, 10, 9), stand(0, 50, 34), stand(0, 7, 7)]);
    terms.note(at(0), WINDOW, &Times::new(), &near);
    assert_eq!(unsure(&terms, &near), [0, 1]);
    assert_eq!(unsure(&terms, &stands([stand(0, 10, 9), stand(0, 50, 50), stand(0, 7, 7)])), [0]);
    for held in [stand(0, 50, 33), stand(0, 50, None), stand(49, 50, 48)] {
        assert_eq!(unsure(&terms, &stands([stand(0, 10, 9), held, stand(0, 7, 7)])), [0; 0], "{held:?}");
    }
}

#[test]
fn ded_04_what_its_topic_deleted_is_read_by_nobody_but_who_has_it_in_hand() {
    let mut terms = Terms::default();
    terms.note(at(0), WINDOW, &Times::new(), &stands([stand(0, 10, 9)]));
    let emptied = stands([stand(10, 10, 9)]);
    assert!(terms.due(&emptied, &in_hand([])).contains("t"), "lost, or a mark");
    assert!(terms.due(&emptied, &in_hand([1])).contains("t"), "another partition's owner has none of it");
    assert!(
        !terms.due(&emptied, &in_hand([0])).contains("t"),
        "it may wait in memory, for longer than its topic keeps it"
    );
    let unread = stands([stand(10, 10, None)]);
    assert!(!terms.due(&unread, &in_hand([0])).contains("t"), "its first one is not done yet");
    let began = stands([Stand { read: true, ..stand(10, 10, None) }]);
    assert!(terms.due(&began, &in_hand([0])).contains("t"), "it was emptied before the group came");
    assert_eq!(terms.waits_for(&emptied, &in_hand([])), BTreeMap::new());
    let waits = terms.waits_for(&emptied, &in_hand([0]));
    let words =
        "topic t, partition 0: the group has committed 9, and is to come to 10 or to a later one, since a worker";
    assert!(waits["t"].starts_with(words), "{waits:?}");
}

#[test]
fn the_clock_of_a_topic_stands_still_at_what_may_be_sent_or_run_again() {
    let all = stands([stand(0, 5, 5)]);
    let mut terms = Terms::default();
    terms.note(at(500), WINDOW, &Times::from([("t".to_owned(), at(300))]), &all);
    let before = |terms: &Terms, unkeyed: &Times| terms.bounds("t", WINDOW, unkeyed, &all)[0].before;
    assert_eq!(before(&terms, &Times::new()), at(300) - WINDOW - SLACK);
    assert_eq!(before(&terms, &Times::from([("t".to_owned(), at(200))])), at(200) - WINDOW - SLACK);
    assert_eq!(before(&terms, &Times::from([("u".to_owned(), at(200))])), at(300) - WINDOW - SLACK);
    // No clock goes back so far.
    assert_eq!(super::before(at(0), Duration::MAX), SystemTime::UNIX_EPOCH);
}

#[test]
fn what_stops_the_clock_for_longer_than_a_window_is_named() {
    let all = stands([stand(0, 5, 5)]);
    let mut terms = Terms::default();
    let (now, old) = (at(500), |minutes| Times::from([("t".to_owned(), at(minutes))]));
    terms.note(now, WINDOW, &old(420), &all);
    assert_eq!(terms.held_back("t", now, WINDOW, &Times::new()), None, "it is on its way");
    terms.swept("t");
    terms.note(now, WINDOW, &old(260), &all);
    let said = terms.held_back("t", now, WINDOW, &old(200)).expect("both are older than a window");
    for words in ["enqueued 4 h ago: `outbox list`", "of 5 h ago: `dead-letters list --topic t`"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(terms.held_back("other", now, WINDOW, &Times::new()), None);
}

/// A message of the model.
#[derive(Debug, Clone, Copy)]
struct Sent {
    key: u8,
    /// When its sender let go of it: put it into the log, or into the outbox.
    at: u64,
    /// When it came into the log.
    logged: u64,
    broken: bool,
}

/// A partition: its log, what was deleted of it, what the worker has in hand, what is committed.
#[derive(Debug, Default)]
struct Log {
    sent: Vec<Sent>,
    start: usize,
    next: usize,
    hand: BTreeMap<usize, Sent>,
    committed: Option<usize>,
}

impl Log {
    fn commit(&mut self) {
        self.committed = Some(self.hand.keys().next().copied().unwrap_or(self.next));
    }
}

/// How far a round of the cleaner is: each of its questions is asked at a moment of its own.
#[derive(Debug, Default)]
enum Round {
    #[default]
    New,
    Unsent(SystemTime, Times),
    Ends(SystemTime, Times, Vec<(usize, usize)>),
    Stands(Stands),
    Due(Stands),
    Bounds(Vec<Bound>),
}

/// How long a topic of the model keeps messages, and for how long a resend is to be caught: by when it was sent, or by when
/// it came into the log.
#[derive(Debug, Default, Clone, Copy)]
struct Life {
    kept: Duration,
    horizon: Duration,
    by_log: bool,
}

/// Messages are read once, or again from the committed offset: then the window counts.
const READ_ON: Life = Life { kept: WINDOW, horizon: WINDOW, by_log: false };

/// Offsets are set back by hand: then what was declared.
const SET_BACK: Life = Life { kept: Duration::from_secs(70 * 60), horizon: Duration::from_secs(30 * 60), by_log: true };

#[derive(Debug, Default)]
struct Model {
    life: Life,
    now: u64,
    logs: [Log; 2],
    /// Whether a worker has the partitions: what it read and never tried is in no table.
    owned: bool,
    outbox: Vec<Sent>,
    /// Without a key: where it lay, when it died.
    letters: BTreeMap<(usize, usize), (Sent, u64)>,
    /// The rows: when and where.
    rows: BTreeMap<u8, (u64, usize, usize)>,
    /// When each key last ran.
    ran: BTreeMap<u8, u64>,
    terms: Terms,
    round: Round,
    purged: usize,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Wait(u64),
    Send { key: u8, to: usize, broken: bool },
    Enqueue(u8),
    Relay(usize),
    Read { from: usize, snooze: bool },
    Wake(usize),
    Redrive,
    Restart,
    Reset(usize),
    Look,
}

fn ops(resets: u32) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => (1_u64..70).prop_map(Op::Wait),
        3 => (0_u8..3, 0_usize..2, prop::bool::weighted(0.1)).prop_map(|(key, to, broken)| Op::Send { key, to, broken }),
        1 => (0_u8..3).prop_map(Op::Enqueue),
        1 => (0_usize..2).prop_map(Op::Relay),
        6 => (0_usize..2, prop::bool::weighted(0.1)).prop_map(|(from, snooze)| Op::Read { from, snooze }),
        1 => (0_usize..2).prop_map(Op::Wake),
        1 => Just(Op::Redrive),
        1 => Just(Op::Restart),
        resets => (0_usize..2).prop_map(Op::Reset),
        9 => Just(Op::Look),
    ];
    prop::collection::vec(op, 1..400)
}

impl Model {
    fn apply(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::Wait(minutes) => self.wait(minutes),
            Op::Send { key, to, broken } => self.logs[to].sent.push(Sent { key, at: now, logged: now, broken }),
            Op::Enqueue(key) => self.outbox.push(Sent { key, at: now, logged: now, broken: false }),
            Op::Relay(to) if !self.outbox.is_empty() => {
                let record = self.outbox.remove(0);
                self.logs[to].sent.push(Sent { logged: now, ..record });
            }
            Op::Read { from, snooze } => self.read(from, snooze),
            Op::Wake(from) => {
                if let Some((offset, sent)) = self.logs[from].hand.pop_first() {
                    self.run(sent, from, offset);
                    self.logs[from].commit();
                }
            }
            Op::Redrive => {
                if let Some(((from, offset), (sent, _))) = self.letters.pop_first() {
                    self.run(sent, from, offset);
                }
            }
            Op::Restart => {
                self.terms = Terms::default();
                self.round = Round::New;
                self.owned = false;
                for log in &mut self.logs {
                    log.hand.clear();
                    log.next = log.committed.unwrap_or(0).max(log.start);
                }
            }
            Op::Reset(of) => {
                let log = &mut self.logs[of];
                log.hand.clear();
                log.next = log.start;
                log.committed = Some(log.start);
            }
            Op::Look => self.look(),
            Op::Relay(_) => {}
        }
    }

    /// The brokers keep what they promised, and no minute more.
    fn wait(&mut self, minutes: u64) {
        self.now += minutes;
        for log in &mut self.logs {
            while log.sent.get(log.start).is_some_and(|sent| at(sent.logged) + self.life.kept < at(self.now)) {
                log.start += 1;
            }
            log.next = log.next.max(log.start);
        }
    }

    fn read(&mut self, from: usize, snooze: bool) {
        self.owned = true;
        let log = &mut self.logs[from];
        let offset = log.next;
        let Some(sent) = log.sent.get(offset).copied() else { return };
        log.next += 1;
        if self.letters.contains_key(&(from, offset)) {
        } else if sent.broken {
            self.letters.insert((from, offset), (sent, self.now));
        } else if snooze && !self.rows.contains_key(&sent.key) {
            log.hand.insert(offset, sent);
        } else {
            self.run(sent, from, offset);
        }
        self.logs[from].commit();
    }

    /// The handler is entered unless the key is there; it must be there for who sent within the window.
    fn run(&mut self, sent: Sent, from: usize, offset: usize) {
        if self.rows.contains_key(&sent.key) {
            return;
        }
        if let Some(ran) = self.ran.get(&sent.key) {
            let again = if self.life.by_log { sent.logged } else { sent.at };
            assert!(at(again) > at(*ran) + self.life.horizon, "ran at {ran} and {}: {sent:?}", self.now);
        }
        self.rows.insert(sent.key, (self.now, from, offset));
        self.ran.insert(sent.key, self.now);
    }

    fn look(&mut self) {
        self.round = match std::mem::take(&mut self.round) {
            Round::New => {
                let oldest = self.outbox.first().map(|record| ("t".to_owned(), at(record.at)));
                Round::Unsent(at(self.now), oldest.into_iter().collect())
            }
            Round::Unsent(now, unsent) => {
                let ends = self.logs.iter().map(|log| (log.start, log.sent.len())).collect();
                Round::Ends(now, unsent, ends)
            }
            Round::Ends(now, unsent, ends) => {
                let all = ends.iter().zip(&self.logs).map(|((start, end), log)| {
                    let number = |offset: usize| i64::try_from(offset).expect("small");
                    stand(number(*start), number(*end), log.committed.map(number))
                });
                let all: Vec<_> = all.collect();
                let all = stands([all[0], all[1]]);
                self.terms.note(now, WINDOW, &unsent, &all);
                Round::Stands(all)
            }
            Round::Stands(stands) => {
                let held = if self.owned { in_hand([0, 1]) } else { in_hand([]) };
                if self.terms.due(&stands, &held).is_empty() { Round::New } else { Round::Due(stands) }
            }
            Round::Due(stands) => {
                let sent = self.letters.values().map(|(sent, died)| at((*died).min(sent.logged))).min();
                let unkeyed = sent.map(|sent| ("t".to_owned(), sent)).into_iter().collect();
                let bounds = self.terms.bounds("t", WINDOW, &unkeyed, &stands);
                self.terms.swept("t");
                Round::Bounds(bounds)
            }
            Round::Bounds(bounds) => {
                let rows = self.rows.len();
                self.rows.retain(|_, (done, partition, offset)| {
                    !bounds.iter().any(|bound| {
                        usize::try_from(bound.partition) == Ok(*partition)
                            && i64::try_from(*offset).is_ok_and(|offset| offset < bound.below)
                            && at(*done) < bound.before
                    })
                });
                self.purged += rows - self.rows.len();
                Round::New
            }
        };
    }
}

fn run(ops: Vec<Op>, life: Life) {
    let mut model = Model { life, ..Model::default() };
    ops.into_iter().for_each(|op| model.apply(op));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// Read late, sent late out of the outbox, sent to another partition, snoozed, dead and redriven, read again after a
    /// restart: who sent within the window finds the key.
    #[test]
    fn ded_04_no_key_goes_that_a_message_of_its_window_may_still_meet(ops in ops(0)) {
        run(ops, READ_ON);
    }

    /// Read again from the log's start: who sent within the horizon finds the key.
    #[test]
    fn ded_04_no_key_goes_that_offsets_set_back_may_still_meet(ops in ops(1)) {
        run(ops, SET_BACK);
    }
}

/// The model does purge: it would prove nothing otherwise.
#[test]
fn the_model_purges() {
    let mut model = Model { life: READ_ON, ..Model::default() };
    for round in 0..20 {
        model.apply(Op::Send { key: round % 3, to: usize::from(round % 2), broken: false });
        (0..2).for_each(|from| model.apply(Op::Read { from, snooze: false }));
        model.apply(Op::Wait(60));
        (0..6).for_each(|_| model.apply(Op::Look));
    }
    assert!(model.purged > 3, "{model:?}");
}
