//! A worker that tells what its messages reach, and halts where it is told to.
//!
//! Orders on standard input: `halt POINT N` stands still when messages reach the point for the
//! N-th time from now; `go` lets it go on. When standard input closes, the program dies with
//! whoever started it.

mod jobs;
mod ordered;
mod orders;
mod poisoned;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use idempotent_jobs::{Retention, Worker};
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // What was assigned and revoked when, for whoever reads a failure.
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,idempotent_jobs::kafka=info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let mut worker = Worker::from_env().probe(orders::follow());
    if let Ok(job) = env::var("CHILD_JOB") {
        worker = worker.jobs([job]);
    }
    if let Ok(jobs) = env::var("CHILD_CONCURRENCY") {
        worker = worker.concurrency(jobs.parse().expect("a number"));
    }
    if let Ok(budget) = env::var("CHILD_SHUTDOWN_MS") {
        worker = worker.shutdown_timeout(Duration::from_millis(budget.parse().expect("milliseconds")));
    }
    if let Ok(window) = env::var("CHILD_RETENTION_S") {
        let seconds = |text: String| Duration::from_secs(text.parse().expect("seconds"));
        worker = worker.retention(Retention::window(seconds(window)));
        worker = worker.retention_ahead(env::var("CHILD_AHEAD_S").map_or(Duration::ZERO, seconds));
    }
    if env::var("CHILD_EXAMINE").as_deref() == Ok("off") {
        worker = worker.examine(false);
    }
    match runtime().block_on(worker.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Runtime {
    let mut builder = match env::var("CHILD_RUNTIME").as_deref() {
        Ok("current_thread") => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    // A halted message holds a thread of the runtime: the others' work goes on.
    builder.enable_all().worker_threads(if env::var("CHILD_RUNTIME").as_deref() == Ok("one_worker") { 1 } else { 4 });
    builder.build().expect("a runtime")
}
