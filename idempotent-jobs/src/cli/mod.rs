//! The operator's command line: `idempotent-jobs dead-letters`, `outbox`, `doctor`, `status`.
//!
//! ```sh
//! cargo install --git … idempotent-jobs --features cli,sqlite
//! DATABASE_URL=postgres://… idempotent-jobs dead-letters list
//! ```
//!
//! It is a library too, for a tool of your own that is built together with your workers: the same
//! version, and the same features, such as those for TLS.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     idempotent_jobs::cli::main()
//! }
//! ```
//!
//! # Exit codes
//! 0: all is done, or well, also where a choice fits nothing. 1: some of it is not, a letter or record that was named is
//! not there, or there is a warning. 2: it could not be done, or is wrong, or was asked for wrongly.
//!
//! # Output
//! Text for people, and with `--json` one JSON object a line for scripts. Payloads and the values of headers
//! appear only where they are asked for. What came from outside is shown with control characters escaped.

mod doctor;
mod letters;
mod outbox;
mod status;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;
use crate::store::{self, Tables};

/// For whoever is on call: what became of the messages of `idempotent-jobs`, and what to do about it.
#[derive(Parser)]
#[command(name = "idempotent-jobs", version, max_term_width = 100, after_help = ENVIRONMENT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const ENVIRONMENT: &str = "\
Environment, the same as the worker's:
  DATABASE_URL     postgres://user:password@host:port/database or sqlite://path/to/file.db
  KAFKA_BROKERS    host:port,host:port
  KAFKA_GROUP_ID   the workers' consumer group
  KAFKA_X_Y        property x.y of the Kafka client, such as KAFKA_SECURITY_PROTOCOL
`dead-letters` and `outbox` need the database alone.

Exit codes:
  0  all is done, or well
  1  some of it is not done, a letter or record that was named is not there, or there is a warning
  2  it could not be done, or is wrong, or was asked for wrongly";

#[derive(Subcommand)]
enum Command {
    /// Messages that could not be processed: look at them, run them again, set them aside
    #[command(subcommand)]
    DeadLetters(letters::Command),
    /// Records that Kafka refused: look at them, send them again, give them up
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Looks at the database, the brokers and the topics, and says what is wrong and what to do
    #[command(after_help = doctor::CODES)]
    Doctor(doctor::Examine),
    /// Shows how much is still to be done, how fast it goes, and what waits for a person
    #[command(after_help = status::MEANING)]
    Status(status::Status),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// All is done, or well.
    Well = 0,
    /// Some of it is not.
    Partly = 1,
    /// Something is wrong.
    Wrong = 2,
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// It has to be asked for in another way.
    #[error("{0}")]
    Asked(String),
    #[error("{}", told(.0))]
    Failed(#[from] Error),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Nothing was to be started.
fn told(error: &Error) -> String {
    match error {
        Error::Start(problems) => problems.join("\n"),
        other => other.to_string(),
    }
}

/// Where a command writes.
type Out<'a> = &'a mut (dyn Write + Send);

/// Runs the command of this process's arguments; what its `main` returns.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) => {
            // Nobody is left to hear of what cannot be printed.
            let _ = said.print();
            return ExitCode::from(if said.use_stderr() { 2 } else { 0 });
        }
    };
    let mut out = io::stdout();
    let ended = run(arguments.command, &mut out).and_then(|end| Ok(out.flush().map(|()| end)?));
    match ended {
        Ok(end) => ExitCode::from(end as u8),
        // `… | head`: whoever read has enough.
        Err(trouble) if trouble.is_enough() => ExitCode::SUCCESS,
        Err(trouble) => {
            let _ = writeln!(io::stderr(), "error: {}", text::lines(&trouble.to_string()));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command, out: Out<'_>) -> Result<End, Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::DeadLetters(command) => letters::run(command, out).await,
            Command::Outbox(command) => outbox::run(command, out).await,
            Command::Doctor(args) => doctor::run(&args, out).await,
            Command::Status(args) => status::run(&args, out).await,
        }
    })
}

impl Trouble {
    fn is_enough(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The database's address. Not an option: other users of the machine see those, passwords included.
fn database_url() -> Result<String, Trouble> {
    let missing = "no database: set `DATABASE_URL` to what the workers have, `postgres://user:password@host:port/database` \
         or `sqlite://path/to/file.db`";
    std::env::var("DATABASE_URL").map_err(|_| Trouble::Asked(missing.to_owned()))
}

/// Refuses tables that are not of this tool's version: a library's connection would bring older ones up to date, under
/// workers that do not know the newer ones.
async fn current(url: &str) -> Result<(), Trouble> {
    let standing = store::standing(url).await;
    let failed = |error| Error::Start(vec![format!("the database cannot be used: {error}")]);
    tables(&standing.map_err(failed)?).map(drop).map_err(|why| Trouble::Asked(format!("the database: {why}")))
}

/// The version of the tables, if it is this tool's; otherwise what is so, and what to do.
fn tables(tables: &Tables) -> Result<i32, String> {
    match tables {
        Tables::Current(version) => Ok(*version),
        Tables::Absent => {
            Err("there are no tables of idempotent-jobs in it: the first worker that starts on it makes them. If one \
             did, `DATABASE_URL` names another database than the workers have"
                .to_owned())
        }
        Tables::Behind(missing) => {
            let (first, last) =
                (missing.iter().min().copied().unwrap_or(1), missing.iter().max().copied().unwrap_or(1));
            Err(format!(
                "the tables are of version {}, and this tool is for version {last}. It changes no tables under older workers: take \
                 the tool of the workers' version; or start a worker of this version, which brings the tables up to date",
                first - 1
            ))
        }
        Tables::Foreign(why) | Tables::Refused(why) => Err(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn tables_of_another_version_are_refused_with_both_versions() {
        assert_eq!(tables(&Tables::Current(7)), Ok(7));
        let older = tables(&Tables::Behind(vec![4, 5, 6, 7])).unwrap_err();
        assert!(older.contains("of version 3, and this tool is for version 7"), "{older}");
        assert!(tables(&Tables::Absent).unwrap_err().contains("there are no tables of idempotent-jobs"));
    }
}
