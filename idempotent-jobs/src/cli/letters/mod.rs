//! `dead-letters`: what could not be processed.

mod decide;
mod export;
mod parked;
mod show;
mod wait;
mod which;

use clap::{Args, Subcommand};
use serde_json::json;

pub(super) use self::parked::object as lane_object;
use self::which::Which;
use super::{End, Out, Trouble, current, database_url, text};
use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::store::Access;

/// What to do with dead letters.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Lists them, the oldest first; without a state or numbers, the open ones
    List(List),
    /// Shows everything of one and its history; its payload and header values only with --payload
    Show(show::Show),
    /// Asks the workers to run them again, each once; look first with --dry-run
    #[command(after_help = decide::REDRIVE)]
    Redrive(decide::Redrive),
    /// Sets them aside for good: their messages are not run, unless they are redriven later by number
    Skip(decide::Skip),
    /// Lists lanes: messages that are kept in order behind a dead letter (`on_exhausted = park`)
    #[command(after_help = parked::PARKED)]
    Parked(parked::Parked),
    /// Writes them whole as JSON, one a line, with payloads and headers in hex
    Export(export::Export),
}

/// `list`
#[derive(Args)]
pub(super) struct List {
    #[command(flatten)]
    which: Which,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: Command, out: Out<'_>) -> Result<End, Trouble> {
    // What is asked for wrongly is said before the database is.
    if let Command::Redrive(decide::Redrive { asked, .. }) | Command::Skip(decide::Skip { asked }) = &command {
        asked.check()?;
    }
    let url = database_url()?;
    current(&url).await?;
    let letters = DeadLetters::open(&url, command.access()).await?;
    match command {
        Command::List(args) => list(&args, &letters, out).await,
        Command::Show(args) => show::show(&args, &letters, out).await,
        Command::Redrive(args) => decide::redrive(&args, &letters, out).await,
        Command::Skip(args) => decide::skip(&args, &letters, out).await,
        Command::Parked(args) => parked::parked(&args, &letters, out).await,
        Command::Export(args) => export::export(&args, &letters, out).await,
    }
}

impl Command {
    fn access(&self) -> Access {
        match self {
            Self::Redrive(decide::Redrive { asked, .. }) | Self::Skip(decide::Skip { asked }) => asked.access(),
            Self::List(_) | Self::Show(_) | Self::Parked(_) | Self::Export(_) => Access::Read,
        }
    }
}

/// Letters listed, unless another number is asked for.
const LISTED: u32 = 100;

async fn list(args: &List, letters: &DeadLetters, out: Out<'_>) -> Result<End, Trouble> {
    let limit = args.which.limit.unwrap_or(LISTED);
    // One more, to know whether there are more. Scripts are told too, beside what they read.
    let mut found = letters.list(&args.which.filter().limit(limit.saturating_add(1))).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    if more {
        text::note("and more: --limit, or a narrower choice");
    }
    let end = args.which.missing(letters).await?;
    if args.json {
        for letter in &found {
            writeln!(out, "{}", object(letter))?;
        }
        return Ok(end);
    }
    if found.is_empty() {
        writeln!(out, "no dead letter fits{}", args.which.hint())?;
        return Ok(end);
    }
    let rows: Vec<_> = found.iter().map(row).collect();
    text::table(out, ["NUMBER", "STATE", "AGE", "JOB", "REASON", "TRIES", "MESSAGE", "KEY", "ERROR"], &rows)?;
    Ok(end)
}

fn row(letter: &DeadLetter) -> [String; 9] {
    let at = &letter.message.coordinates;
    [
        letter.id.to_string(),
        letter.state.to_string(),
        text::age_of(letter.died_at),
        text::clean(letter.job.as_deref().unwrap_or("-")),
        text::clean(&letter.reason),
        letter.attempts.to_string(),
        text::clean(&format!("{}/{}@{}", at.topic, at.partition, at.offset)),
        text::short(letter.key.as_deref().unwrap_or("-"), 40),
        text::short(&letter.error, 100),
    ]
}

/// Everything but what the message says.
fn object(letter: &DeadLetter) -> serde_json::Value {
    let (message, at) = (&letter.message, &letter.message.coordinates);
    json!({
        "id": letter.id,
        "state": letter.state.as_str(),
        "job": letter.job,
        "group": letter.group,
        "topic": *at.topic,
        "partition": at.partition,
        "offset": at.offset,
        "timestamp": message.timestamp,
        "key": letter.key,
        "reason": letter.reason,
        "error": letter.error,
        "attempts": letter.attempts,
        "payload_bytes": message.payload.as_ref().map(Vec::len),
        "died_at_ms": text::millis(letter.died_at),
        "changed_at_ms": text::millis(letter.changed_at),
        "changed_by": letter.changed_by,
    })
}
