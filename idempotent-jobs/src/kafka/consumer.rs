//! A consumer and its handle; what its thread does is in `poller`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use tokio::sync::oneshot;
use tracing::{error, info};

use super::membership::Membership;
use super::poller::Poller;
use super::{Intake, Properties, after};
use crate::error::Error;

/// What happens when messages were deleted before the group read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnGap {
    /// The worker stops with an error that names them.
    #[default]
    Stop,
    /// They are named in an error log line, and reading goes on at the log's start.
    Report,
}

/// How a consumer keeps time.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Between two offset commits; at most one is on its way.
    pub commit_interval: Duration,
    /// How long running jobs are waited for when partitions go to another member. The other
    /// members wait meanwhile; the bound is `max.poll.interval.ms`, since heartbeats go on.
    pub revoke_budget: Duration,
    /// What deleted messages mean.
    pub on_gap: OnGap,
    /// How long a topic or partition may be unknown to the brokers, as it is while they restart.
    pub missing_budget: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_millis(500),
            revoke_budget: Duration::from_secs(5),
            on_gap: OnGap::Stop,
            missing_budget: Duration::from_secs(30),
        }
    }
}

/// Starts consumers.
#[derive(Debug)]
pub struct Consumer;

impl Consumer {
    /// Joins the group with default settings; see [`start_with`](Self::start_with).
    ///
    /// # Errors
    /// Every property that is missing or refused, one sentence each.
    pub fn start(
        properties: &Properties,
        topics: &[String],
        intake: Arc<dyn Intake>,
    ) -> Result<ConsumerHandle, Vec<String>> {
        Self::start_with(Settings::default(), properties, topics, intake)
    }

    /// Joins the group on a thread of its own, which feeds `intake` until the handle is stopped.
    ///
    /// # Errors
    /// Every property that is missing or refused, one sentence each.
    pub fn start_with(
        settings: Settings,
        properties: &Properties,
        topics: &[String],
        intake: Arc<dyn Intake>,
    ) -> Result<ConsumerHandle, Vec<String>> {
        let one = |error: KafkaError| vec![format!("the Kafka consumer cannot be made: {error}")];
        let context = Membership::new(Arc::clone(&intake), settings.revoke_budget);
        let consumer: BaseConsumer<Membership> = properties.consumer()?.create_with_context(context).map_err(one)?;
        consumer.subscribe(&topics.iter().map(String::as_str).collect::<Vec<_>>()).map_err(one)?;
        if properties.consumer_protocol() {
            info!("the brokers' `group.consumer.session.timeout.ms` decides how soon a killed member is replaced");
        }
        let stop = Arc::new(Stop::default());
        let (done, ended) = oneshot::channel();
        let poller = Poller::new(
            consumer,
            settings,
            topics,
            Arc::clone(&stop),
            properties.fetch_wait(),
            properties.starts_at_end(),
        );
        let thread = std::thread::Builder::new().name("idempotent-jobs-kafka".to_owned());
        let body = move || {
            if catch_unwind(AssertUnwindSafe(|| poller.run())).is_err() {
                intake.failed(Error::Kafka(
                    "the consumer's thread panicked; its messages are read again at the next start".to_owned(),
                ));
            }
            let _ = done.send(());
        };
        thread.spawn(body).map_err(|error| vec![format!("the consumer's thread cannot be started: {error}")])?;
        Ok(ConsumerHandle { stop, ended: Some(ended) })
    }
}

/// Whether a consumer ended in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Committed what was settled and left the group.
    Clean,
    /// The brokers did not answer in time; the process may end, and the group notices by its
    /// session timeout.
    Abandoned,
}

/// A running consumer. Dropped, it stops without waiting for running jobs.
#[derive(Debug)]
pub struct ConsumerHandle {
    stop: Arc<Stop>,
    ended: Option<oneshot::Receiver<()>>,
}

/// What leaving may take beside the budget: the last commit and the farewell to the group. With
/// the default budget of 25 s the end comes before the 30 s after which Kubernetes kills.
const FAREWELL: Duration = Duration::from_secs(4);

impl ConsumerHandle {
    /// Takes no further message, gives the intake `budget` to finish what runs, commits, leaves
    /// the group. Waits without blocking the runtime, and not much longer than the budget.
    pub async fn stop(mut self, budget: Duration) -> Stopped {
        self.stop.request(budget);
        let Some(ended) = self.ended.take() else { return Stopped::Abandoned };
        match tokio::time::timeout(budget.saturating_add(FAREWELL), ended).await {
            Ok(Ok(())) => Stopped::Clean,
            Ok(Err(_)) => Stopped::Abandoned,
            Err(_) => {
                error!(
                    "the consumer did not leave its group in time and is abandoned: its partitions move when its session times out"
                );
                Stopped::Abandoned
            }
        }
    }
}

impl Drop for ConsumerHandle {
    fn drop(&mut self) {
        self.stop.request(Duration::ZERO);
    }
}

/// The request to stop: the first one counts.
#[derive(Debug, Default)]
pub(super) struct Stop(Mutex<Option<Instant>>);

impl Stop {
    fn request(&self, budget: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| after(budget));
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
