//! Jobs per second: ours beside a consumer written by hand and beside pgbench, measured in turns.
//!
//! Run it by `tests/bench/run`, which brings the servers. Whoever is measured runs in a process
//! of its own, which is this program again.

mod child;
mod contest;
mod contestant;
mod field;
mod jobs;
mod kafka;
mod load;
mod machine;
mod memory;
mod message;
mod options;
mod outbox;
mod pgbench;
mod postgres;
mod progress;
mod purge;
mod report;
mod results;
mod scale;
mod sqlite;
mod twin;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::options::{Arguments, Mode};
use crate::progress::Progress;

/// Why a run says nothing.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { contest, mode } = Arguments::parse();
    let ended = match mode {
        None => contest::run(&contest).await,
        Some(mode) => measured(mode).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One of the measured processes, which tells its numbers.
async fn measured(mode: Mode) -> Result<(), Failure> {
    let progress = Arc::new(Progress::new(mode.measured().messages));
    match mode {
        Mode::Worker { job, measured } => worker::run(&measured, &job, &progress).await?,
        Mode::Twin { per_transaction, measured } => {
            let progress = Arc::clone(&progress);
            // On a thread of the runtime, where a wake-up costs less than on the main one.
            tokio::spawn(async move { twin::run(&measured, per_transaction, &progress).await }).await??;
        }
        Mode::Producer { measured } => outbox::produce(&measured, &progress)?,
        Mode::Relay { measured } => outbox::relay(&measured, &progress).await?,
    }
    let told = progress.told().ok_or("ended before the last message")?;
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}
