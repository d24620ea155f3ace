//! Real purchases through a job, with everything that goes wrong in production made to go wrong.
//!
//! This process sends the orders of a file, a third of them twice, and runs the worker as a
//! process of its own ([`worker`]), which it kills with SIGKILL while it works. At the end it
//! compares the database with the file: each order is to have its effect once.
//!
//! Begin with [`jobs`]: that is all a user writes. The rest is the show around it.

mod cli;
mod cluster;
mod cut;
mod folder;
mod format;
mod jobs;
mod kills;
mod ledger;
mod orders;
mod place;
mod plan;
mod process;
mod progress;
mod report;
mod reports;
mod send;
mod show;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Arguments, Mode};

/// What a person is told when the run cannot go on.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match arguments.mode {
        Some(Mode::Worker { job }) => worker::run(&job).map(|()| true),
        None => show::run(&arguments),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}
