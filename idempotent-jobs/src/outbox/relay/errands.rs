//! The relay's calls to the database: a few at a time, each bounded, each again when it failed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::timeout;
use tracing::{info, warn};

use super::shares::Epochs;
use super::window::Slot;
use crate::retry::Backoff;
use crate::store::{Failure, Kept, Place, RelayStore, Row, Shard, Share, StoreError, Wanted};

/// The time the database has for a call; less than a lease for that which keeps it.
const ANSWER: Duration = Duration::from_secs(15);
const PROMPT: Duration = Duration::from_secs(3);

const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// Calls of one kind follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Desk {
    /// Reads, and records failures: never at once, so that nothing read before a failure was
    /// recorded comes in after it.
    Read,
    Mark,
    Keep,
    Listen,
}

/// What a call brought.
pub(super) enum Done {
    Read {
        rows: Vec<Row>,
        promoted: u64,
        epochs: Epochs,
        crowded: bool,
    },
    Recorded(Vec<Slot>),
    Age(Option<Duration>),
    Marked(Vec<Slot>),
    Purged(u64),
    Kept {
        asked: Duration,
        asleep: bool,
        kept: Kept,
    },
    Released(Vec<Shard>),
    Left,
    Woken,
    /// It failed, and what it was for is still to be done.
    Failed(Undone),
}

/// What a failed call was for, where the relay has to know.
pub(super) enum Undone {
    Mark(Vec<Slot>),
    Record(Vec<(Slot, Failure)>),
    Nothing,
}

/// How a call ended.
pub(super) type Ended = (Desk, Result<Done, (StoreError, Undone)>);

/// See the module.
pub(super) struct Errands {
    store: Arc<dyn RelayStore>,
    /// The relay's name.
    name: Arc<str>,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    desks: [Standing; 4],
}

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    busy: bool,
    failures: u32,
    not_before: Duration,
}

impl Errands {
    pub fn new(store: Arc<dyn RelayStore>, name: Arc<str>) -> Self {
        Self { store, name, running: FuturesUnordered::new(), desks: [Standing::default(); 4] }
    }

    /// Whether a call of this kind may begin.
    pub fn is_free(&self, desk: Desk, now: Duration) -> bool {
        let standing = &self.desks[desk as usize];
        !standing.busy && now >= standing.not_before
    }

    /// Whether none of this kind runs.
    pub fn is_idle(&self, desk: Desk) -> bool {
        !self.desks[desk as usize].busy
    }

    /// When desks that failed try again.
    pub fn retries(&self, now: Duration) -> Option<Duration> {
        self.desks.iter().filter(|desk| !desk.busy).map(|desk| desk.not_before).filter(|at| *at > now).min()
    }

    /// Waits for the next call to end.
    pub async fn next(&mut self) -> Ended {
        match self.running.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Takes note of how a call ended.
    pub fn settle(&mut self, (desk, ended): Ended, now: Duration) -> Done {
        let standing = &mut self.desks[desk as usize];
        standing.busy = false;
        match ended {
            Ok(done) => {
                if standing.failures > 0 {
                    info!("the relay's database answers again");
                }
                *standing = Standing::default();
                done
            }
            Err((error, undone)) => {
                standing.failures = standing.failures.saturating_add(1);
                standing.not_before = now + RETRY.delay(standing.failures, rand::random());
                if standing.failures == 1 {
                    warn!(?desk, %error, "the relay keeps what it has and tries again");
                }
                Done::Failed(undone)
            }
        }
    }

    fn run<T: Send + 'static>(
        &mut self,
        desk: Desk,
        limit: Duration,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
        then: impl FnOnce(Result<T, StoreError>) -> Result<Done, (StoreError, Undone)> + Send + 'static,
    ) {
        self.desks[desk as usize].busy = true;
        self.running.push(Box::pin(async move {
            let answer = timeout(limit, call).await;
            (desk, then(answer.unwrap_or_else(|_| Err(StoreError::unanswered(limit)))))
        }));
    }

    /// Reads what is due; before that, what waited for its time is made ready.
    pub fn read(&mut self, wanted: Wanted, epochs: Epochs, promote: bool) {
        let store = Arc::clone(&self.store);
        let crowded = !wanted.except_topics.is_empty();
        let call = async move {
            let promoted = if promote { store.promote().await? } else { 0 };
            Ok((store.due(&wanted).await?, promoted))
        };
        self.run(Desk::Read, ANSWER, call, move |read| {
            nothing(read.map(|(rows, promoted)| Done::Read { rows, promoted, epochs, crowded }))
        });
    }

    pub fn record(&mut self, failures: Vec<(Slot, Failure)>) {
        let (store, name) = (Arc::clone(&self.store), Arc::clone(&self.name));
        let told: Vec<Failure> = failures.iter().map(|(_, failure)| failure.clone()).collect();
        let call = async move { store.failed(&name, &told).await };
        self.run(Desk::Read, ANSWER, call, move |recorded| match recorded {
            Ok(()) => Ok(Done::Recorded(failures.into_iter().map(|(slot, _)| slot).collect())),
            Err(error) => Err((error, Undone::Record(failures))),
        });
    }

    pub fn look_at_age(&mut self, shards: Vec<Shard>) {
        let store = Arc::clone(&self.store);
        let call = async move { store.oldest(&shards).await };
        self.run(Desk::Read, ANSWER, call, |age| nothing(age.map(Done::Age)));
    }

    pub fn mark(&mut self, slots: Vec<Slot>, places: Vec<Place>, keep: bool) {
        let store = Arc::clone(&self.store);
        let call = async move { store.sent(&places, keep).await };
        self.run(Desk::Mark, ANSWER, call, move |marked| match marked {
            Ok(()) => Ok(Done::Marked(slots)),
            Err(error) => Err((error, Undone::Mark(slots))),
        });
    }

    pub fn purge(&mut self, older: Duration) {
        let store = Arc::clone(&self.store);
        let call = async move { store.purge(older).await };
        self.run(Desk::Mark, ANSWER, call, |purged| nothing(purged.map(Done::Purged)));
    }

    /// `asked`: the time before it was sent, from which the lease is counted.
    pub fn keep(&mut self, asked: Duration, asleep: bool, share: Share) {
        let (store, name) = (Arc::clone(&self.store), Arc::clone(&self.name));
        let call = async move { store.keep(&name, asleep, share).await };
        self.run(Desk::Keep, PROMPT, call, move |kept| nothing(kept.map(|kept| Done::Kept { asked, asleep, kept })));
    }

    pub fn release(&mut self, shards: Vec<Shard>) {
        let (store, name) = (Arc::clone(&self.store), Arc::clone(&self.name));
        let given = shards.clone();
        let call = async move { store.release(&name, &given).await };
        self.run(Desk::Keep, PROMPT, call, |released| nothing(released.map(|()| Done::Released(shards))));
    }

    pub fn leave(&mut self) {
        let (store, name) = (Arc::clone(&self.store), Arc::clone(&self.name));
        let call = async move { store.leave(&name).await };
        self.run(Desk::Keep, PROMPT, call, |left| nothing(left.map(|()| Done::Left)));
    }

    /// For as long as it takes.
    pub fn listen(&mut self) {
        let store = Arc::clone(&self.store);
        let call = async move { store.woken().await };
        self.run(Desk::Listen, Duration::from_secs(86_400), call, |woken| nothing(woken.map(|()| Done::Woken)));
    }
}

fn nothing(done: Result<Done, StoreError>) -> Result<Done, (StoreError, Undone)> {
    done.map_err(|error| (error, Undone::Nothing))
}
