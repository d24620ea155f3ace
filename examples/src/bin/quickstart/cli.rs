//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Sends every order of a file through Kafka to an idempotent job, a third of them twice, and
/// kills the worker three times meanwhile. Each order is to have its effect in the database once.
///
/// Without KAFKA_BROKERS and DATABASE_URL it brings what it needs: a broker inside this process
/// and a SQLite file in a temporary folder. With both set it runs on those (PostgreSQL or SQLite).
#[derive(Debug, Parser)]
#[command(name = "quickstart", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// The orders: `order_id,customer_id,ordered_on,quantity,amount_cents`, with that first line
    /// [default: 6,919 real purchases kept beside this program]
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Prints the result as one last line of JSON instead of a table
    #[arg(long)]
    pub json: bool,

    #[command(subcommand)]
    pub mode: Option<Mode>,
}

/// What else this executable is.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// The worker process, started by the show itself
    #[command(hide = true)]
    Worker {
        /// The job to run
        job: String,
    },
}

const AFTER_HELP: &str = "\
The result:
  orders      lines of the file, each an order
  sent        messages sent: every order, and a third of them again with the same key
  delivered   deliveries whose outcome is certain: effects in the database, and duplicates skipped.
              A delivery that a kill cut short is rolled back and not counted; it comes again
  duplicates  deliveries skipped because their key was claimed: resends, and messages that were
              delivered again after a kill. Workers report each at once, so a kill loses no count
  kills       SIGKILLs of the worker, each while work was unfinished
  cents       the sum of the effects in the database, to be that of the file
  lost        orders without an effect in the database
  doubled     orders with more than one

Exit code: 0 all is right; 1 something is lost, doubled or wrong; 2 the run could not be made.";
