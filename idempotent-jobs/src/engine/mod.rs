//! The engine: lanes filled by the consumer's thread, emptied by workers.
//!
//! Invariant: an offset is handed out for commit only when every job of its message has settled
//! it. One mutex guards the lanes; it is never held across an await or a call of a user's code.

mod execute;
mod intake;
mod lanes;
mod offsets;
mod outcome;
pub(crate) mod probe;
mod settle;
mod work;

pub(crate) use self::work::work;

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use self::lanes::{Bounds, Lanes};
use self::probe::Probe;
use self::settle::Standing;
use crate::context::{Context, States};
use crate::error::Error;
use crate::job::Job;
use crate::key::Key;
use crate::message::Message;
use crate::store::Store;

/// A job as this engine runs it.
pub(crate) type Routed<S> = Arc<dyn Job<<S as Store>::Tx>>;

/// The jobs a message still has to pass, and how each stands.
#[derive(Debug, Default)]
struct Progress(Option<Vec<(usize, Standing, Option<Instant>)>>);

/// What the engine is made of.
pub(crate) struct Parts<S: Store> {
    pub store: S,
    pub group: String,
    pub jobs: Vec<Routed<S>>,
    pub states: Arc<States>,
    pub probe: Arc<dyn Probe>,
    /// How many bytes the messages in all lanes may take.
    #[expect(dead_code, reason = "lanes are bounded one by one so far")]
    pub memory: usize,
}

/// Shared by the consumer's thread and the workers.
pub(crate) struct Engine<S: Store> {
    store: S,
    group: String,
    jobs: Vec<Routed<S>>,
    states: Arc<States>,
    probe: Arc<dyn Probe>,
    lanes: Mutex<Lanes<Progress>>,
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
        let Parts { store, group, jobs, states, probe, memory: _ } = parts;
        Arc::new(Self {
            store,
            group,
            jobs,
            states,
            probe,
            lanes: Mutex::new(Lanes::new(Bounds::default())),
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

    /// Why the engine stopped by itself, if it did.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().expect("no panic while the failure is set").take()
    }

    /// How many workers it keeps busy: each has a connection of its own.
    pub fn width(&self) -> usize {
        self.store.connections()
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<Progress>> {
        self.lanes.lock().expect("lanes do not panic")
    }

    fn context(&self, message: &Arc<Message>, key: Key, attempt: u32) -> Context {
        Context { message: Arc::clone(message), key, attempt, states: Arc::clone(&self.states) }
    }
}
