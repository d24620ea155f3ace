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
mod message;
mod options;
mod pgbench;
mod postgres;
mod progress;
mod report;
mod results;
mod sqlite;
mod twin;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::options::{Arguments, Measured, Mode};
use crate::progress::Progress;

/// Why a run says nothing.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { contest, mode } = Arguments::parse();
    let ended = match &mode {
        None => contest::run(&contest).await,
        Some(Mode::Worker { job, measured }) => {
            let progress = progress(measured);
            tell(&progress, worker::run(measured, job, &progress).await)
        }
        Some(Mode::Twin { per_transaction, measured }) => {
            let progress = progress(measured);
            tell(&progress, twin::run(measured, *per_transaction, &progress).await)
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn progress(measured: &Measured) -> Arc<Progress> {
    Arc::new(Progress::new(measured.messages))
}

fn tell(progress: &Progress, ended: Result<(), Failure>) -> Result<(), Failure> {
    ended?;
    let told = progress.told().ok_or("ended before the last message")?;
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}
