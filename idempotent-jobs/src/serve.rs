//! From the start-up checks to the last committed offset.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::doctor::{Doctor, Finding, Severity};
use crate::engine::{Engine, Parts, Routed, let_go, redrive, watch, work};
use crate::error::Error;
use crate::kafka::{self, Consumer, ConsumerHandle, Dispatch, Properties, Settings};
use crate::outbox::relay::{Terms, relay};
use crate::registry::{self, Registered};
use crate::retention::{self, Cleaner, clean};
use crate::start::{self, Selection};
use crate::store::{JobRow, Store, open_relay, unknown_database};
use crate::worker::WorkerBuilder;

/// How long the brokers may take to answer a start-up check.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than any worker runs, for a budget without an end.
const AGES: Duration = Duration::from_secs(30 * 365 * 86_400);
/// How long an ended worker may take to let go of its connection.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The committed offset of each topic's partition that has one.
type Committed = BTreeMap<(String, i32), i64>;

/// What asks a worker to end.
pub(crate) type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Checks, consumes, shuts down.
pub(crate) async fn serve(mut builder: WorkerBuilder) -> Result<(), Error> {
    let _alive = builder.health.until_dropped();
    // Heard from the first moment: a signal during the checks must not kill by its default action.
    let shutdown = match builder.shutdown.take() {
        Some(shutdown) => shutdown,
        None => asked_to_end().map_err(|error| Error::Start(vec![format!("signals cannot be heard: {error}")]))?,
    };
    let linked = registry::all();
    let properties = builder.properties();
    let url = builder.database_url.take().or_else(|| builder.env.then(|| std::env::var("DATABASE_URL").ok()).flatten());
    let Some(url) = url else {
        return Err(refused(&builder, &linked, &properties, NO_DATABASE.to_owned()));
    };
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            on::<crate::store::PostgresStore>(builder, shutdown, &linked, properties, &url).await
        }
        #[cfg(feature = "sqlite")]
        Some("sqlite") => on::<crate::store::SqliteStore>(builder, shutdown, &linked, properties, &url).await,
        _ => Err(refused(&builder, &linked, &properties, unknown_database())),
    }
}

const NO_DATABASE: &str = "no database: set `DATABASE_URL`, or call `Worker::builder().database_url(…)`";

/// Everything that can be found wrong without knowing the database.
fn refused(builder: &WorkerBuilder, linked: &[Registered], properties: &Properties, problem: String) -> Error {
    let mut problems = vec![problem];
    problems.extend(start::names(linked, &builder.selection()));
    problems.extend(properties.problems());
    Error::Start(problems)
}

async fn on<S: Store>(
    builder: WorkerBuilder,
    mut shutdown: Shutdown,
    linked: &[Registered],
    properties: Properties,
    url: &str,
) -> Result<(), Error> {
    let bell = Arc::default();
    let start = async {
        let checked = check::<S>(&builder, linked, &properties, url).await?;
        let cleaning = cleaning(&builder, url, &properties, &checked.topics).await?;
        Ok::<_, Error>((checked, Relaying::start(&builder, url, &properties, &bell).await?, cleaning))
    };
    let (checked, relaying, cleaning) = tokio::select! {
        biased;
        () = &mut shutdown => {
            tracing::info!("asked to end before the start was complete: nothing was read");
            return Ok(());
        }
        started = start => started?,
    };
    let Checked { store, jobs, topics, group } = checked;
    for job in &jobs {
        let spec = job.spec();
        tracing::info!(job = spec.name, topic = spec.topic, event = spec.event, key = %spec.key_form, group, "runs");
    }
    let dead_letter_topics = start::dead_letter_topics(builder.dead_letter_topic.as_deref(), &topics)
        .map_err(|problem| Error::Start(vec![problem]))?;
    let WorkerBuilder {
        states,
        probe,
        shutdown_timeout,
        on_gap,
        memory_budget,
        unknown_event,
        missing_keys,
        examine,
        health,
        ..
    } = builder;
    let engine = Engine::new(Parts {
        store,
        group,
        jobs,
        states: Arc::new(states),
        probe,
        memory: memory_budget / 2,
        silence: properties.silence(),
        session: properties.session_timeout(),
        bell,
        unknown_event,
        health: health.clone(),
        dead_letter_topics,
        missing_keys,
    });
    if examine {
        tokio::spawn(examine_all(Doctor::of_worker(url, properties.clone())));
    }
    let settings = Settings { on_gap, ..Settings::default() };
    let warming = Arc::clone(&engine);
    tokio::spawn(async move { warming.warm().await });
    let consumer = Consumer::start_with(settings, &properties, &topics, engine.clone()).map_err(Error::Start)?;
    health.started();
    consume(engine, consumer, Beside { relaying, cleaning }, shutdown, shutdown_timeout).await
}

/// What runs beside the jobs.
struct Beside {
    relaying: Option<Relaying>,
    /// Dropped, it ends: a step that is not committed is done again.
    cleaning: JoinSet<()>,
}

/// The purge, if the worker is to have one.
async fn cleaning(
    builder: &WorkerBuilder,
    url: &str,
    properties: &Properties,
    topics: &[String],
) -> Result<JoinSet<()>, Error> {
    let mut task = JoinSet::new();
    if builder.retention.limit().is_some() {
        let cleaner = Cleaner::open(url, properties, topics, builder.retention).await;
        let cleaner = cleaner
            .map_err(|error| Error::Start(vec![format!("the database cannot be used for retention: {error}")]))?;
        task.spawn(clean(cleaner, builder.retention_ahead));
    }
    Ok(task)
}

/// The doctor's look at a start, which nothing waits for.
const EXAMINED: Duration = Duration::from_secs(30);

/// Logs what the doctor finds. That the group has no members yet is no news: this one is about to join.
async fn examine_all(doctor: Doctor) {
    let Ok(findings) = timeout(EXAMINED, doctor.examine()).await else {
        return tracing::debug!("the doctor had no time to look at everything");
    };
    for finding in findings.into_iter().filter(|finding| finding.check != "group.members") {
        let Finding { severity, check, place, what, advice, .. } = finding;
        match severity {
            Severity::Ok => tracing::debug!(check, place, advice, "{what}"),
            Severity::Warning => tracing::warn!(check, place, advice, "{what}"),
            Severity::Error => tracing::error!(check, place, advice, "{what}"),
        }
    }
}

/// What the checks of a start found in order.
struct Checked<S: Store> {
    store: S,
    jobs: Vec<Routed<S>>,
    topics: Vec<String>,
    group: String,
}

/// All the checks of a start: what is wrong is reported together.
async fn check<S: Store>(
    builder: &WorkerBuilder,
    linked: &[Registered],
    properties: &Properties,
    url: &str,
) -> Result<Checked<S>, Error> {
    let selection = builder.selection();
    let mut problems = start::names(linked, &selection);
    let (jobs, more) = start::select::<S::Tx>(linked, &selection, &builder.states);
    problems.extend(more);
    if builder.concurrency == 0 {
        problems.push("`concurrency` is 0, and no job would ever run: give at least 1".to_owned());
    }
    properties.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));

    let topics: BTreeSet<String> = jobs.iter().map(|job| job.spec().topic.to_owned()).collect();
    let topics: Vec<String> = topics.into_iter().collect();
    let (store, committed) =
        tokio::join!(S::open(url, builder.concurrency.max(1)), offsets(properties, topics.clone()));
    if committed.is_ok() {
        problems.extend(too_short(builder, properties, &topics).await);
    }
    let committed = committed.map_err(|more| problems.extend(more)).unwrap_or_default();
    let store = store.map_err(|error| problems.push(format!("the database cannot be used: {error}"))).ok();
    let Some(store) = store.filter(|_| problems.is_empty()) else { return Err(Error::Start(problems)) };

    let group = properties.group_id().unwrap_or_default().to_owned();
    let refusals = register(&store, &jobs, &group, &builder.shared, &committed).await?;
    if refusals.is_empty() { Ok(Checked { store, jobs, topics, group }) } else { Err(Error::Start(refusals)) }
}

/// What the group has committed of these topics; the problems found on the way there.
async fn offsets(properties: &Properties, topics: Vec<String>) -> Result<Committed, Vec<String>> {
    let problems = properties.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    if topics.is_empty() {
        return Ok(Committed::new());
    }
    let properties = properties.clone();
    let (answer, answered) = oneshot::channel();
    // A thread of its own and not one of the runtime's, which the program's end would wait for.
    let asking = std::thread::Builder::new().name("idempotent-jobs-start".to_owned()).spawn(move || {
        let found = kafka::check(&properties, &topics, PATIENCE)
            .and_then(|topics| kafka::committed(&properties, &topics, PATIENCE));
        let _ = answer.send(found);
    });
    let failed = |error: &dyn std::fmt::Display| Err(vec![format!("the brokers could not be asked: {error}")]);
    match asking {
        Ok(_) => answered.await.unwrap_or_else(|error| failed(&error)),
        Err(error) => failed(&error),
    }
}

/// Whether the topics keep their messages for longer than keys are kept, or do not say.
async fn too_short(builder: &WorkerBuilder, properties: &Properties, topics: &[String]) -> Vec<String> {
    if builder.retention.limit().is_none() {
        return Vec::new();
    }
    match kafka::keeping(properties, topics, PATIENCE).await {
        Ok(keeping) => retention::problems(&builder.retention, &keeping),
        Err(unread) => unread
            .into_iter()
            .map(|problem| format!("retention: {problem}, so that nobody knows how long keys must be kept: keep them forever, or make the settings readable"))
            .collect(),
    }
}

async fn register<S: Store>(
    store: &S,
    jobs: &[Routed<S>],
    group: &str,
    shared: &[String],
    committed: &Committed,
) -> Result<Vec<String>, Error> {
    let rows: Vec<JobRow<'_>> = jobs
        .iter()
        .map(|job| {
            let spec = job.spec();
            let shared = shared.iter().any(|name| name == spec.name);
            JobRow {
                name: spec.name,
                group,
                topic: spec.topic,
                key_form: &spec.key_form,
                scheme: spec.scheme.id(),
                shared,
            }
        })
        .collect();
    let offset = |topic: &str, partition: i32| committed.get(&(topic.to_owned(), partition)).copied();
    store.register(&rows, &offset).await.map_err(|error| Error::Start(vec![error.to_string()]))
}

/// Dropped with the caller's future, the engine starts nothing more.
struct StopWhenDropped<S: Store>(Arc<Engine<S>>);

impl<S: Store> Drop for StopWhenDropped<S> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

async fn consume<S: Store>(
    engine: Arc<Engine<S>>,
    consumer: ConsumerHandle,
    mut beside: Beside,
    shutdown: Shutdown,
    budget: Duration,
) -> Result<(), Error> {
    let _stop = StopWhenDropped(Arc::clone(&engine));
    // To the consumer's end, which needs its last word.
    let mut watching = JoinSet::new();
    watching.spawn(watch(Arc::clone(&engine)));
    watching.spawn(let_go(Arc::clone(&engine)));
    let mut workers = JoinSet::new();
    for _ in 0..engine.width() {
        workers.spawn(work(Arc::clone(&engine)));
    }
    workers.spawn(redrive(Arc::clone(&engine)));
    tokio::select! {
        biased;
        () = shutdown => tracing::info!("asked to end: running jobs finish, nothing new is started"),
        () = engine.stopped() => {}
        Some(ended) = workers.join_next() => engine.fail(Error::Internal(format!("a worker ended by itself: {ended:?}"))),
        Some(ended) = watching.join_next() => engine.fail(Error::Internal(format!("a task of watermarks and partitions ended by itself: {ended:?}"))),
        ended = broken(&mut beside.relaying) => engine.fail(Error::Internal(format!("the relay ended by itself: {ended}"))),
        Some(ended) = beside.cleaning.join_next() => engine.fail(Error::Internal(format!("the purge ended by itself: {ended:?}"))),
    }
    engine.health().stopping();
    engine.stop();
    beside.cleaning.abort_all();
    let deadline = Instant::now().checked_add(budget).unwrap_or_else(|| Instant::now() + AGES);
    consumer.stop(budget).await;
    let running = finish(workers, deadline).await;
    engine.let_go_all().await;
    // After the jobs, for which it goes on to their end.
    if let Some(relaying) = beside.relaying {
        relaying.stop(deadline.saturating_duration_since(Instant::now())).await;
    }
    match engine.failure() {
        Some(error) => Err(error),
        None if running > 0 => Err(Error::ShutdownTimeout { running, budget }),
        None => Ok(()),
    }
}

/// Waits for the workers until the deadline, then ends them: their transactions roll back with
/// their connections. How many had to be ended.
async fn finish(mut workers: JoinSet<()>, deadline: Instant) -> usize {
    let all = async { while workers.join_next().await.is_some() {} };
    if timeout_at(deadline, all).await.is_ok() {
        return 0;
    }
    let running = workers.len();
    workers.abort_all();
    // A handler that blocks its thread hears of nothing: it is left behind.
    let all = async { while workers.join_next().await.is_some() {} };
    let _ = timeout(LAST_WORDS, all).await;
    workers.detach_all();
    running
}

/// The worker's relay. Dropped, it ends without a word, as if the process had died.
struct Relaying {
    task: JoinSet<()>,
    stop: oneshot::Sender<Duration>,
}

impl Relaying {
    /// None, if the worker is to have none.
    async fn start(
        builder: &WorkerBuilder,
        url: &str,
        properties: &Properties,
        bell: &Arc<Notify>,
    ) -> Result<Option<Self>, Error> {
        if !builder.relay {
            return Ok(None);
        }
        let terms = Terms::default();
        let terms = builder.relay_keep_sent.map_or(terms.clone(), |retention| terms.keep_sent(retention));
        let terms = Terms { health: Some(builder.health.clone()), ..terms };
        let store = open_relay(url).await;
        let store =
            store.map_err(|error| Error::Start(vec![format!("the database cannot be used for the relay: {error}")]))?;
        let dispatch = Dispatch::new(properties, None).map_err(Error::Start)?;
        let (stop, stopped) = oneshot::channel();
        // Whoever is gone without a word wants no waiting.
        let stopped = async { stopped.await.unwrap_or_default() };
        let mut task = JoinSet::new();
        task.spawn(relay(store, dispatch, Arc::clone(bell), terms, stopped));
        Ok(Some(Self { task, stop }))
    }

    /// What is in flight is waited for, and the shards are given back.
    async fn stop(mut self, budget: Duration) {
        let _ = self.stop.send(budget.min(Terms::default().budget));
        let _ = timeout(budget + LAST_WORDS, self.task.join_next()).await;
    }
}

/// Waits for the relay's end, which nobody asked for.
async fn broken(relaying: &mut Option<Relaying>) -> String {
    match relaying {
        Some(relaying) => format!("{:?}", relaying.task.join_next().await),
        None => std::future::pending().await,
    }
}

/// SIGTERM or Ctrl-C.
pub(crate) fn asked_to_end() -> std::io::Result<Shutdown> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Box::pin(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }))
    }
    #[cfg(not(unix))]
    {
        Ok(Box::pin(async { drop(tokio::signal::ctrl_c().await) }))
    }
}

impl WorkerBuilder {
    fn selection(&self) -> Selection<'_> {
        Selection { only: self.only.as_deref(), expected: &self.expected, shared: &self.shared }
    }

    /// The environment's properties, overridden by those of the builder.
    fn properties(&mut self) -> Properties {
        let mut properties = if self.env { Properties::from_env() } else { Properties::default() };
        if let Some(brokers) = self.brokers.take() {
            properties = properties.with_brokers(brokers);
        }
        if let Some(group) = self.group_id.take() {
            properties = properties.group(group);
        }
        properties.set_all(std::mem::take(&mut self.properties)).prefetch(self.memory_budget / 2)
    }
}
