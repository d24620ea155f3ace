//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures jobs per second: ours beside a consumer written by hand and beside pgbench, in turns.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(flatten)]
    pub contest: Contest,

    #[command(subcommand)]
    pub mode: Option<Mode>,
}

/// What is measured, and how long.
#[derive(Debug, Args)]
pub struct Contest {
    /// Fewer messages and three rounds: a few minutes
    #[arg(long)]
    pub quick: bool,

    /// Everything: --memory, --scale and --purge
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Also: peak memory over backlogs of one and of two million messages
    #[arg(long, conflicts_with = "quick")]
    pub memory: bool,

    /// Also: with 20,000,000 keys claimed before, beside none
    #[arg(long, conflicts_with = "quick")]
    pub scale: bool,

    /// Also: while old keys are purged, beside none that are
    #[arg(long, conflicts_with = "quick")]
    pub purge: bool,

    /// How often everything is measured [default: 5, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,

    /// Only these of the table's lines, and the ratios they allow
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Writes the last line, and every round's numbers, to a file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Writes the table to a file, with the machine and the versions
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// For trying out the benchmark itself: messages of the smaller backlog of --memory
    #[arg(long, value_name = "N", default_value_t = 1_000_000, hide_short_help = true)]
    pub backlog: u64,

    /// For trying out the benchmark itself: keys of --scale
    #[arg(long, value_name = "N", default_value_t = 20_000_000, hide_short_help = true)]
    pub keys: u64,

    /// For trying out the benchmark itself: keys of --purge
    #[arg(long, value_name = "N", default_value_t = 5_000_000, hide_short_help = true)]
    pub purge_keys: u64,

    #[arg(long, env = "KAFKA_BROKERS", default_value = "", hide = true)]
    pub brokers: String,

    #[arg(long, env = "DATABASE_URL", default_value = "", hide = true)]
    pub postgres: String,

    /// A folder for SQLite's files
    #[arg(long, env = "BENCH_FOLDER", default_value = "", hide = true)]
    pub folder: PathBuf,
}

/// The processes that are measured, started by the contest itself.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// One of our workers, running this job
    #[command(hide = true)]
    Worker {
        job: String,
        #[command(flatten)]
        measured: Measured,
    },
    /// The consumer written by hand
    #[command(hide = true)]
    Twin {
        /// How many jobs share a transaction; on SQLite alone
        #[arg(long, default_value_t = 1)]
        per_transaction: usize,
        #[command(flatten)]
        measured: Measured,
    },
    /// A bare producer of the records that a relay sends
    #[command(hide = true)]
    Producer {
        #[command(flatten)]
        measured: Measured,
    },
    /// A relay of ours; of 0 messages it runs until its input ends
    #[command(hide = true)]
    Relay {
        #[command(flatten)]
        measured: Measured,
    },
}

impl Mode {
    pub fn measured(&self) -> &Measured {
        match self {
            Self::Worker { measured, .. }
            | Self::Twin { measured, .. }
            | Self::Producer { measured }
            | Self::Relay { measured } => measured,
        }
    }
}

/// What every measured process is told.
#[derive(Debug, Clone, Args)]
pub struct Measured {
    #[arg(long)]
    pub database: String,
    #[arg(long)]
    pub brokers: String,
    #[arg(long)]
    pub group: String,
    #[arg(long)]
    pub topic: String,
    #[arg(long)]
    pub messages: u64,
    #[arg(long)]
    pub connections: usize,
}
