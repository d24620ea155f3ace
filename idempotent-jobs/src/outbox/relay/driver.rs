//! The life of a record: read, sent, confirmed, marked. One task, and nothing it waits for holds
//! up the rest.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::Terms;
use super::clock::Clock;
use super::errands::{Desk, Done, Errands, Undone};
use super::judge::{Verdict, judge};
use super::meter::Meter;
use super::pace::Pace;
use super::reach::Reach;
use super::shares::{Epochs, Shards, fair};
use super::window::{Bounds, Entry, Slot, Window};
use crate::kafka::{Declined, Dispatch, Fate, Parcel};
use crate::message::{EVENT_HEADER, IDEMPOTENCY_KEY_HEADER, IDEMPOTENCY_KEY_PARTS_HEADER};
use crate::store::{Failure, Kept, Place, RelayStore, Row, Share, Wanted};

/// Between renewals of the lease.
const BEAT: Duration = Duration::from_secs(1);
/// Between looks for records whose time has come.
const PROMOTE: Duration = Duration::from_millis(100);
/// Between looks at the age of the backlog.
const LOOK: Duration = Duration::from_secs(5);
/// Between looks for what has too much of the window.
const PRUNE: Duration = Duration::from_millis(100);
/// Between looks for rows behind one that is set aside, unless there are many.
const HOLD: Duration = Duration::from_secs(5);
/// Of purging and holding, so many rows are a full batch: there may be more.
const FULL: u64 = 1_000;
/// How long the brokers have to answer whether they are there.
const ANSWER: Duration = Duration::from_secs(3);
/// How long the producer has to end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between purges of sent records, unless there are many.
const PURGE: Duration = Duration::from_secs(10);
/// Rows of one read, and of one mark.
const BATCH: usize = 4_000;
/// Rows of a shard that a read may step over for topics that do not move.
const WALK: usize = 5_000;
/// Failures recorded at once: each is a trip of its own.
const FAILURES: usize = 500;
/// After so many records the clock is looked at again: the process may have been paused.
const PULSE: usize = 64;

/// A record, and how it is to travel.
struct Cargo {
    row: Row,
    alone: bool,
}

/// See the module.
pub(super) struct Driver {
    terms: Terms,
    /// Rung in this process when records are in the outbox.
    bell: Arc<Notify>,
    dispatch: Dispatch,
    errands: Errands,
    clock: Clock,
    shards: Shards,
    window: Window<Cargo>,
    pace: Pace,
    meter: Meter,
    reach: Reach,
    /// The question to the brokers whether they are there.
    asking: Option<oneshot::Receiver<bool>>,
    /// Whether it is one of the relays: not before the brokers answered, nor after they stopped.
    joined: bool,
    /// How many relays live, itself included.
    live: usize,
    /// Confirmed by Kafka, and not told to the database yet.
    confirmed: Vec<Slot>,
    /// Refused, and not told to the database yet.
    failures: Vec<(Slot, Failure)>,
    /// Why the producer cannot go on.
    broken: Option<String>,
    next_beat: Duration,
    next_promote: Duration,
    next_look: Duration,
    next_purge: Duration,
    next_hold: Duration,
    next_prune: Duration,
    /// The marker's last call was for no mark: the next is, if there is anything to mark.
    marks_next: bool,
    next_rebuild: Duration,
    /// When what is on its way is given up, once the relay was told to stop.
    deadline: Option<Duration>,
    left: bool,
}

impl Driver {
    pub fn new(store: Arc<dyn RelayStore>, dispatch: Dispatch, bell: Arc<Notify>, terms: Terms) -> Self {
        let name: Arc<str> = format!("{}-{:016x}", std::process::id(), rand::random::<u64>()).into();
        tracing::Span::current().record("relay", &*name);
        info!("relays");
        Self {
            errands: Errands::new(store, name),
            window: Window::new(Bounds { rows: terms.rows, bytes: terms.bytes }),
            reach: Reach::new(terms.silence),
            terms,
            bell,
            dispatch,
            clock: Clock::start(),
            shards: Shards::default(),
            pace: Pace::new(),
            meter: Meter::new(),
            asking: None,
            joined: false,
            live: 1,
            confirmed: Vec::new(),
            failures: Vec::new(),
            broken: None,
            next_beat: Duration::ZERO,
            next_promote: Duration::ZERO,
            next_look: Duration::ZERO,
            next_purge: Duration::ZERO,
            next_hold: Duration::ZERO,
            next_prune: Duration::ZERO,
            marks_next: false,
            next_rebuild: Duration::ZERO,
            deadline: None,
            left: false,
        }
    }

    pub async fn run(mut self, stop: impl Future<Output = Duration> + Send) {
        let mut stop = pin!(stop);
        while !self.left {
            self.take_reports();
            self.send();
            self.ask();
            self.begin_errands();
            let now = self.clock.now();
            let wait = self.next_turn(now).saturating_sub(now);
            let stopping = self.deadline.is_some();
            tokio::select! {
                biased;
                budget = &mut stop, if !stopping => self.stop(budget),
                ended = self.errands.next() => {
                    let now = self.clock.now();
                    let done = self.errands.settle(ended, now);
                    self.done(done, now);
                }
                () = self.dispatch.reported() => {}
                there = answer(&mut self.asking) => {
                    self.asking = None;
                    if there {
                        let now = self.clock.now();
                        self.answered(now);
                    }
                }
                () = self.bell.notified() => {
                    let now = self.clock.now();
                    self.pace.woken(now);
                }
                () = sleep(wait) => {}
            }
        }
        self.dispatch.close(LAST_WORDS).await;
    }

    /// When there is something to do, should nothing happen.
    fn next_turn(&self, now: Duration) -> Duration {
        let fallback = now + BEAT;
        let reads = if self.may_read(now) { self.pace.next() } else { now + PRUNE };
        let others = [self.errands.retries(now), self.window.resumes(now), self.deadline].into_iter().flatten();
        others.chain([self.next_beat, reads]).filter(|at| *at > now).chain([fallback]).min().unwrap_or(fallback)
    }

    // ---- Kafka

    fn take_reports(&mut self) {
        let now = self.clock.now();
        for (slot, fate) in self.dispatch.reports() {
            self.land(slot, fate, now);
        }
        if self.broken.is_some() && now >= self.next_rebuild {
            self.rebuild(now);
        }
        self.reach.waits(self.window.flying() > 0 || self.window.is_troubled(), now);
        self.meter.standing(self.window.flying(), self.shards.count());
        if let Some(health) = &self.terms.health {
            health.relay_reaches(!self.reach.is_cut_off());
        }
    }

    /// Asks the brokers whether they are there, where that is in doubt.
    fn ask(&mut self) {
        let now = self.clock.now();
        if self.asking.is_none() && self.deadline.is_none() && self.reach.asks(now) {
            self.asking = Some(self.dispatch.ask(ANSWER));
        }
    }

    fn answered(&mut self, now: Duration) {
        if self.reach.is_cut_off() {
            info!("the brokers answer");
            self.next_beat = now;
        }
        self.reach.answered(now);
    }

    /// Whether others are to do what this one cannot: they may reach the brokers.
    fn retreats(&self) -> bool {
        self.reach.is_cut_off() && self.live > 1
    }

    /// How many shards it is to have when so many live.
    fn share(&self) -> Share {
        if self.deadline.is_some() || self.retreats() { |_| 0 } else { fair }
    }

    /// A record's report.
    fn land(&mut self, slot: Slot, fate: Fate, now: Duration) {
        let entry = self.window.get(slot);
        let (shard, topic) = (entry.shard, Arc::clone(&entry.topic));
        let (attempts, alone) = (entry.record.row.attempts, entry.record.alone);
        let owned = self.shards.owns(shard);
        match judge(fate, attempts, alone, self.terms.refused, rand::random()) {
            Verdict::Sent => {
                self.answered(now);
                self.window.confirmed(slot, now);
                self.confirmed.push(slot);
                self.meter.sent(&topic);
            }
            Verdict::Alone => {
                self.window.get_mut(slot).record.alone = true;
                self.window.back(slot, owned);
            }
            Verdict::Again(detail) => self.again(slot, owned, &topic, &detail, now),
            Verdict::Rebuild(detail) => {
                self.again(slot, owned, &topic, &detail, now);
                self.broken = Some(detail);
            }
            Verdict::Later(detail, wait) => self.refused(slot, owned, detail, Some(wait), now),
            Verdict::Aside(detail) => self.refused(slot, owned, detail, None, now),
        }
    }

    fn again(&mut self, slot: Slot, owned: bool, topic: &str, detail: &str, now: Duration) {
        self.meter.failed(topic, "trouble");
        self.window.troubled(slot, owned);
        if let Some(troubles) = self.window.troubles(topic, now) {
            let wait = self.terms.trouble.delay(troubles + 1, rand::random());
            if troubles == 0 {
                warn!(topic, error = detail, "records do not get through; they are sent again, and lose no attempt");
            }
            self.window.pause(topic, now + wait);
        }
    }

    fn refused(&mut self, slot: Slot, owned: bool, detail: String, again: Option<Duration>, now: Duration) {
        let entry = self.window.get(slot);
        let (place, topic) = (entry.record.row.place, Arc::clone(&entry.topic));
        let key_hash = entry.record.row.key_hash();
        self.meter.failed(&topic, "refused");
        match again {
            Some(wait) => warn!(%topic, key_hash, error = detail, ?wait, "a record was refused; it is tried again"),
            None => {
                self.meter.set_aside(&topic);
                error!(%topic, key_hash, error = detail, "a record is set aside: redrive it when the cause is gone");
            }
        }
        if self.window.refused(slot, now, owned) {
            self.failures.push((slot, Failure { place, error: detail, again }));
        }
    }

    /// Another producer; what was on its way may be in the log, and is sent again.
    fn rebuild(&mut self, now: Duration) {
        self.next_rebuild = now + BEAT;
        let Some(why) = self.broken.take() else { return };
        match self.dispatch.rebuild() {
            Ok(()) => {
                warn!(error = why, "the relay's producer could not go on, and is another now");
                for slot in self.window.all_flying() {
                    let owned = self.shards.owns(self.window.get(slot).shard);
                    self.window.back(slot, owned);
                }
            }
            Err(error) => {
                warn!(error, "the relay's producer cannot be made again yet");
                self.broken = Some(why);
            }
        }
    }

    fn send(&mut self) {
        if self.broken.is_some() || self.deadline.is_some() {
            return;
        }
        let mut now = self.clock.now();
        let Self { window, shards, .. } = self;
        let launched = window.launch(now, usize::MAX, |shard| shards.may_send(shard, now));
        let mut full = false;
        for (count, slot) in launched.into_iter().enumerate() {
            if count % PULSE == 0 {
                now = self.clock.now();
            }
            let shard = self.window.get(slot).shard;
            if full || !self.shards.may_send(shard, now) {
                let owned = self.shards.owns(shard);
                self.window.back(slot, owned);
                continue;
            }
            match offer(&mut self.dispatch, slot, self.window.get(slot)) {
                Ok(()) => {}
                Err(Declined::Full) => {
                    full = true;
                    self.window.back(slot, true);
                }
                Err(Declined::Fate(fate)) => self.land(slot, fate, now),
            }
        }
    }

    // ---- the database

    fn begin_errands(&mut self) {
        let now = self.clock.now();
        if self.errands.is_free(Desk::Keep, now) {
            self.begin_keeping(now);
        }
        if self.errands.is_free(Desk::Mark, now) {
            self.begin_marking(now);
        }
        if self.errands.is_free(Desk::Read, now) {
            self.begin_reading(now);
        }
        if self.errands.is_free(Desk::Listen, now) && self.deadline.is_none() {
            self.errands.listen();
        }
    }

    fn begin_keeping(&mut self, now: Duration) {
        if self.deadline.is_some_and(|deadline| now >= deadline || self.is_settled()) {
            self.errands.leave();
        } else if !self.joined && self.reach.is_cut_off() {
            // It would count as one that takes its share.
        } else if self.joined && self.retreats() && self.is_settled() {
            // From here on they may be another's.
            self.close();
            self.errands.leave();
        } else if now >= self.next_beat {
            (self.joined, self.next_beat) = (true, now + BEAT);
            let asleep = self.deadline.is_none() && self.pace.falls_asleep();
            self.errands.keep(now, asleep, self.share());
        } else if self.deadline.is_none() {
            self.give_back();
        }
    }

    /// What others are to have goes when nothing of it is on its way any more.
    fn give_back(&mut self) {
        let mut closing = self.shards.closing();
        if closing.is_empty() {
            return;
        }
        let busy = self.window.busy();
        closing.retain(|shard| !busy.contains(shard));
        if !closing.is_empty() {
            self.window.lose(&closing);
            self.shards.forgot(&closing);
            self.errands.release(closing);
        }
    }

    fn begin_marking(&mut self, now: Duration) {
        let marks = !self.confirmed.is_empty();
        if !(marks && self.marks_next) && self.deadline.is_none() && self.begin_chore(now) {
            self.marks_next = true;
        } else if marks {
            self.marks_next = false;
            let slots: Vec<Slot> = self.confirmed.drain(..self.confirmed.len().min(BATCH)).collect();
            let places: Vec<Place> = slots.iter().map(|slot| self.window.get(*slot).record.row.place).collect();
            self.errands.mark(slots, places, self.terms.keep_sent.is_some());
        }
    }

    /// What has to be done now and then, however much there is to mark.
    fn begin_chore(&mut self, now: Duration) -> bool {
        if let Some(older) = self.terms.keep_sent
            && now >= self.next_purge
        {
            self.next_purge = now + PURGE;
            self.errands.purge(older);
            return true;
        }
        let shards = if now >= self.next_hold { self.shards.open(now) } else { Vec::new() };
        let holds = !shards.is_empty();
        if holds {
            self.next_hold = now + HOLD;
            self.errands.hold(shards);
        }
        holds
    }

    fn begin_reading(&mut self, now: Duration) {
        if now >= self.next_prune {
            self.next_prune = now + PRUNE;
            self.window.prune(now);
        }
        if !self.failures.is_empty() {
            let some = self.failures.len().min(FAILURES);
            self.errands.record(self.failures.drain(..some).collect());
        } else if self.deadline.is_none() && now >= self.next_look {
            self.next_look = now + LOOK;
            self.look_at_age(now);
        } else if self.may_read(now) && now >= self.pace.next() {
            self.read(now);
        }
    }

    fn look_at_age(&mut self, now: Duration) {
        let shards = self.shards.open(now);
        if shards.is_empty() {
            self.age(None);
        } else {
            self.errands.look_at_age(shards);
        }
    }

    /// Little room is not worth a read.
    fn may_read(&self, now: Duration) -> bool {
        self.deadline.is_none() && self.window.is_roomy(now) && !self.shards.open(now).is_empty()
    }

    fn read(&mut self, now: Duration) {
        self.pace.reads(now);
        self.window.prune(now);
        let Some(except_topics) = self.window.crowded(now) else { return };
        let promote = now >= self.next_promote;
        if promote {
            self.next_promote = now + PROMOTE;
        }
        let room = self.window.room();
        let wanted = Wanted {
            shards: self.shards.open(now),
            except: self.window.ids(),
            walk: (!except_topics.is_empty()).then_some(WALK),
            except_topics,
            rows: room.rows.min(BATCH),
            bytes: room.bytes,
        };
        self.errands.read(wanted, self.shards.epochs(), promote);
    }

    fn done(&mut self, done: Done, now: Duration) {
        match done {
            Done::Read { rows, promoted, epochs, crowded } => {
                let read = rows.len();
                let found = self.admit(rows, &epochs, now);
                let wasted = read > 2 * found;
                self.pace.read(now, found + usize::try_from(promoted).unwrap_or(0), wasted, crowded);
            }
            Done::Recorded(failures) => self.recorded(failures, now),
            Done::Age(age) => self.age(age),
            Done::Marked(slots) => self.window.marked(&slots),
            Done::Purged(rows) if rows >= FULL => self.next_purge = now,
            Done::HeldBack(rows) if rows >= FULL => self.next_hold = now,
            Done::Purged(_) | Done::HeldBack(_) => {}
            Done::Kept { asked, asleep, kept } => {
                self.pace.told(asleep, now);
                self.kept(&kept, asked, now);
            }
            Done::Released(shards) => {
                info!(released = shards.len(), "gave shards to another relay");
                self.shards.released(&shards);
            }
            Done::Left if self.deadline.is_none() => self.retreated(),
            Done::Left => self.left = true,
            Done::Woken => self.pace.woken(now),
            Done::Failed(undone) => self.undone(undone, now),
        }
    }

    fn kept(&mut self, kept: &Kept, asked: Duration, now: Duration) {
        self.live = kept.live;
        let gone = self.shards.kept(kept, asked);
        self.lose(&gone);
        let busy = self.window.busy();
        self.shards.balance(self.share()(kept.live), |shard| !busy.contains(&shard));
        if !kept.taken.is_empty() {
            info!(taken = kept.taken.len(), owned = self.shards.count(), live = kept.live, "took shards");
            self.pace.woken(now);
        }
        if self.retreats() && self.window.flying() > 0 {
            // A report may take for as long as a delivery does, and others are to go on.
            self.broken.get_or_insert_with(|| "the brokers do not answer, and others are to send".to_owned());
        }
    }

    /// It is none of the relays any more, until the brokers answer.
    fn retreated(&mut self) {
        warn!("the brokers do not answer: the other relays have the outbox until they do");
        self.joined = false;
        self.shards.released(&self.shards.closing());
    }

    fn recorded(&mut self, failures: Vec<(Slot, Failure)>, now: Duration) {
        for (slot, failure) in failures {
            if failure.again.is_none() {
                self.next_hold = now;
            }
            self.window.recorded(slot);
        }
    }

    fn undone(&mut self, undone: Undone, now: Duration) {
        match undone {
            Undone::Mark(slots) => self.confirmed.extend(slots),
            Undone::Record(failures) => self.failures.extend(failures),
            Undone::Nothing => {}
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            // The lease ends by itself.
            self.left = true;
        }
    }

    fn admit(&mut self, rows: Vec<Row>, epochs: &Epochs, now: Duration) -> usize {
        let Self { shards, window, .. } = self;
        // What was read of a shard that was somebody else's in between is stale.
        let held = rows.into_iter().filter(|row| shards.held_since(row.place.shard, epochs));
        let entries: Vec<_> = held.map(|row| entry(row, window)).collect();
        window.admit(entries, now)
    }

    fn lose(&mut self, shards: &[i16]) {
        if shards.is_empty() {
            return;
        }
        self.meter.lost(shards.len());
        warn!(shards = shards.len(), "lost shards to another relay: nothing more of them is sent from here");
        self.window.lose(shards);
    }

    /// Of the oldest record it has to send.
    fn age(&self, age: Option<Duration>) {
        self.meter.age(age);
        if let Some(health) = &self.terms.health {
            health.relay_backlog(age);
        }
    }

    // ---- the end

    fn stop(&mut self, budget: Duration) {
        let now = self.clock.now();
        info!(in_flight = self.window.flying(), "the relay ends: what is on its way is waited for");
        self.deadline = Some(now.saturating_add(budget));
        self.close();
    }

    /// Nothing more is sent of what it has.
    fn close(&mut self) {
        self.shards.close();
        let all = self.shards.closing();
        self.window.lose(&all);
        self.shards.forgot(&all);
    }

    /// Whether nothing is on its way and the database knows all.
    fn is_settled(&self) -> bool {
        let told = self.confirmed.is_empty() && self.failures.is_empty();
        told && self.window.flying() == 0 && self.errands.is_idle(Desk::Mark) && self.errands.is_idle(Desk::Read)
    }
}

/// The brokers' answer, if they are asked.
async fn answer(asking: &mut Option<oneshot::Receiver<bool>>) -> bool {
    match asking {
        Some(asking) => asking.await.unwrap_or(false),
        None => std::future::pending().await,
    }
}

fn entry(row: Row, window: &mut Window<Cargo>) -> Entry<Cargo> {
    Entry {
        shard: row.place.shard,
        id: row.place.id,
        topic: window.topic(&row.topic),
        lane: row.partition_key.as_deref().filter(|_| row.ordered).map(Arc::from),
        size: row.size,
        record: Cargo { row, alone: false },
    }
}

fn offer(dispatch: &mut Dispatch, slot: Slot, entry: &Entry<Cargo>) -> Result<(), Declined> {
    let Cargo { row, alone } = &entry.record;
    let mut headers: Vec<(&str, Option<&[u8]>)> = Vec::with_capacity(row.headers.len() + 3);
    headers.push((IDEMPOTENCY_KEY_HEADER, Some(row.key.as_bytes())));
    headers.push((IDEMPOTENCY_KEY_PARTS_HEADER, Some(row.key_parts.as_bytes())));
    headers.extend(row.event.as_deref().map(|event| (EVENT_HEADER, Some(event.as_bytes()))));
    headers.extend(row.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
    let parcel = Parcel {
        topic: &row.topic,
        key: row.partition_key.as_deref().map(str::as_bytes),
        payload: row.payload.as_deref(),
        headers: &headers,
        alone: *alone,
    };
    dispatch.offer(slot, &parcel)
}
