//! A worker in the test's own process, for what needs no kill.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use idempotent_jobs::{Error, Worker, WorkerBuilder};
use tokio::runtime;
use tokio::sync::oneshot;

use crate::PATIENCE;
use crate::events::{Events, Source, Watch};
use crate::world::World;

/// A running worker. Dropped, it is told to stop.
pub struct Running {
    pub source: Source,
    stop: Option<oneshot::Sender<()>>,
    ended: Receiver<Result<(), Error>>,
    events: Arc<Events>,
}

impl World {
    /// Starts a worker with these jobs, in the world's group.
    pub fn work<const N: usize>(&self, jobs: [&str; N]) -> Running {
        self.work_as(jobs, |builder| builder)
    }

    /// The same, with more to say to the builder.
    pub fn work_as<const N: usize>(
        &self,
        jobs: [&str; N],
        more: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    ) -> Running {
        let source = self.source();
        self.events.start(source);
        let watch = Watch { source, events: Arc::clone(&self.events) };
        let builder = Worker::builder().database_url(self.database.url()).brokers(self.broker.servers());
        let builder = builder.group_id(&self.group).property("group.protocol", "consumer").jobs(jobs).probe(watch);
        run(more(builder), source, &self.events)
    }
}

/// Runs a worker on a thread and a runtime of its own.
pub fn run(builder: WorkerBuilder, source: Source, events: &Arc<Events>) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let (told, ended) = channel();
    let heard = Arc::clone(events);
    let builder = builder.shutdown_on(async { drop(stopped.await) });
    thread::spawn(move || {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let result = runtime.block_on(builder.run());
        if let Err(error) = &result {
            heard.say(source, error.to_string());
        }
        let _ = told.send(result);
        heard.end(source);
    });
    Running { source, stop: Some(stop), ended, events: Arc::clone(events) }
}

impl Running {
    /// Tells it to stop; what it ended with.
    ///
    /// # Errors
    /// The worker's.
    pub fn stop(mut self) -> Result<(), Error> {
        self.events.dismiss(self.source);
        self.stop = None;
        self.wait()
    }

    /// Waits until it stops by itself; why it did.
    ///
    /// # Panics
    /// When it does not, or not for an error.
    pub fn fails(self) -> Error {
        self.events.dismiss(self.source);
        self.wait().expect_err("the worker stops for an error")
    }

    fn wait(&self) -> Result<(), Error> {
        self.ended
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("the worker goes on:\n{}", self.events.seen().describe()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.events.dismiss(self.source);
    }
}

/// The text of an error that stopped a worker, for assertions on its words.
pub fn words(error: &Error, expected: &[&str]) {
    let text = error.to_string();
    for word in expected {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}
