//! The engine: lanes filled by the consumer's thread, emptied by workers.
//!
//! Invariant: an offset is handed out for commit only when every job of its message has settled
//! it and the database's watermark says so. One mutex guards the lanes; it is never held across an await or a call of a user's code.

mod attempts;
mod bury;
mod classes;
mod desk;
mod discard;
mod execute;
mod gate;
mod graves;
pub(crate) mod history;
mod intake;
mod lanes;
mod look;
mod offsets;
mod outcome;
mod owners;
mod pace;
mod parked;
mod pass;
pub(crate) mod probe;
mod progress;
mod pulse;
mod redrive;
mod report;
mod settle;
mod together;
mod watermarks;
mod work;

pub use self::history::OnMissingKeys;
pub(crate) use self::owners::let_go;
pub(crate) use self::redrive::redrive;
pub(crate) use self::watermarks::watch;
pub(crate) use self::work::work;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use self::classes::Classes;
use self::graves::Graves;
use self::lanes::{Back, Bounds, End, Lanes, Task};
use self::owners::Owners;
use self::pace::Pace;
use self::parked::Parked;
use self::probe::Probe;
use self::progress::Progress;
use self::pulse::Pulse;
use self::watermarks::Watermarks;
use crate::context::{Context, States};
use crate::error::{Error, Fate};
use crate::fingerprint::Fingerprint;
use crate::health::Health;
use crate::job::{Job, Prepared, Spec};
use crate::key::Key;
use crate::message::Message;
use crate::store::{Claim, SPAN, Store, Terms};

/// A job as this engine runs it.
pub(crate) type Routed<S> = Arc<dyn Job<<S as Store>::Tx>>;

/// What the engine is made of.
pub(crate) struct Parts<S: Store> {
    pub store: S,
    pub group: String,
    pub jobs: Vec<Routed<S>>,
    pub states: Arc<States>,
    pub probe: Arc<dyn Probe>,
    /// Bytes of messages that may wait here.
    pub memory: usize,
    /// After so long without a poll another process may own the partitions.
    pub silence: Duration,
    /// After so long the group has noticed.
    pub session: Duration,
    /// Rung when records are in the outbox.
    pub bell: Arc<Notify>,
    /// What becomes of messages whose event no job takes.
    pub unknown_event: Fate,
    /// Told how the worker is.
    pub health: Health,
    /// Of each topic, where copies of its dead letters go; of a topic that is not here they go nowhere.
    pub dead_letter_topics: HashMap<String, String>,
    /// What a start below purged keys means.
    pub missing_keys: OnMissingKeys,
}

/// Shared by the consumer's thread and the workers.
pub(crate) struct Engine<S: Store> {
    store: S,
    group: String,
    jobs: Vec<Routed<S>>,
    states: Arc<States>,
    probe: Arc<dyn Probe>,
    classes: Classes,
    /// Of each job.
    paces: Vec<Pace>,
    lanes: Mutex<Lanes<Progress>>,
    graves: Graves,
    parked: Parked,
    owners: Owners,
    watermarks: Watermarks,
    pulse: Pulse,
    /// Workers that have nothing to do.
    idle: AtomicUsize,
    bell: Arc<Notify>,
    unknown_event: Fate,
    health: Health,
    dead_letter_topics: HashMap<String, String>,
    /// A worker may find something to do.
    work: Notify,
    /// A message stopped running: whoever drains looks again.
    rest: Condvar,
    /// Nothing new is started once this is true.
    stopping: watch::Sender<bool>,
    /// The first error that stops the worker.
    failure: Mutex<Option<Error>>,
}

impl<S: Store> Engine<S> {
    pub fn new(parts: Parts<S>) -> Arc<Self> {
        let Parts {
            store,
            group,
            jobs,
            states,
            probe,
            memory,
            silence,
            session,
            bell,
            unknown_event,
            dead_letter_topics,
            missing_keys,
            health,
        } = parts;
        let classes = Classes::new(&jobs.iter().map(|job| job.spec()).collect::<Vec<_>>());
        let lanes = Lanes::new(Bounds { memory, span: SPAN });
        Arc::new(Self {
            store,
            group,
            classes,
            paces: jobs.iter().map(|_| Pace::default()).collect(),
            jobs,
            states,
            probe,
            lanes: Mutex::new(lanes),
            graves: Graves::default(),
            parked: Parked::default(),
            owners: Owners::new(),
            watermarks: Watermarks::new(missing_keys),
            pulse: Pulse::new(silence, session, Instant::now()),
            idle: AtomicUsize::new(0),
            bell,
            unknown_event,
            health,
            dead_letter_topics,
            work: Notify::new(),
            rest: Condvar::new(),
            stopping: watch::Sender::new(false),
            failure: Mutex::new(None),
        })
    }

    /// Starts nothing new; running messages finish.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        self.work.notify_waiters();
    }

    /// Resolves when the engine was told to stop or a message stopped it.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives as long as the engine, which `self` borrows.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Stops for this reason; the first one given stands.
    pub fn fail(&self, error: Error) {
        tracing::error!("{error}");
        self.failure.lock().expect("no panic while the failure is set").get_or_insert(error);
        self.stop();
    }

    /// Waits, unless the engine is told to stop.
    async fn rest(&self, time: Duration) {
        tokio::select! {
            () = self.stopped() => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    /// Why the engine stopped by itself, if it did.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().expect("no panic while the failure is set").take()
    }

    /// How the worker is.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Opens what the workers need.
    pub async fn warm(&self) {
        self.store.warm().await;
    }

    /// How many workers it keeps busy: each has a connection of its own.
    pub fn width(&self) -> usize {
        self.store.connections()
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<Progress>> {
        self.lanes.lock().expect("lanes do not panic")
    }

    /// The dedup insert of a message for a job.
    fn claim<'a>(&'a self, spec: &'a Spec, prepared: &'a Prepared, message: &'a Message) -> Claim<'a> {
        self.claim_of(spec, &prepared.key, prepared.fingerprint, message)
    }

    fn claim_of<'a>(
        &'a self,
        spec: &'a Spec,
        key: &'a Key,
        fingerprint: Fingerprint,
        message: &'a Message,
    ) -> Claim<'a> {
        Claim {
            job: spec.name,
            key,
            fingerprint,
            scheme: spec.scheme.id(),
            group: &self.group,
            at: &message.coordinates,
        }
    }

    /// Where a copy of the message's dead letter goes.
    fn copy_to(&self, message: &Message) -> Option<&str> {
        self.dead_letter_topics.get(&*message.coordinates.topic).map(String::as_str)
    }

    /// The partition of `task` stands still before it; the others go back.
    fn halt(&self, task: Task<Progress>, others: Vec<Task<Progress>>) {
        let back = others.into_iter().map(|task| (task, End::Back(Back::default())));
        self.lanes().conclude(std::iter::once((task, End::Halt)).chain(back).collect());
        self.rest.notify_all();
    }

    fn context(&self, spec: &Spec, message: &Arc<Message>, key: Key, attempt: u32) -> Context {
        Context { job: spec.name, message: Arc::clone(message), key, attempt, states: Arc::clone(&self.states) }
    }
}

/// How a job's transactions are opened.
fn terms(spec: &Spec) -> Terms {
    Terms { isolation: spec.isolation, timeout: spec.timeout }
}
