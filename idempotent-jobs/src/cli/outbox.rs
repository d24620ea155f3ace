//! `outbox`: records that Kafka refused.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{End, Out, Trouble, current, database_url, text};
use crate::outbox::{Outbox, SetAside};
use crate::store::Access;

/// What to do with records of the outbox.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Lists records that were set aside after ten refusals (one, if too large), the oldest first
    ///
    /// Later records of their Kafka message key wait behind them.
    List(List),
    /// Sends set-aside records again, in their place in the order of their Kafka message key
    Redrive(Those),
    /// Gives set-aside records up: they are gone for good, and what waits behind them goes on
    Discard(Discard),
    /// Sends a record once more that was sent, for a receiver that lost it
    ///
    /// Its relay must have been told to keep what it sent (`relay_keep_sent`). Jobs that did have it skip
    /// it as a duplicate.
    Replay(Replay),
}

/// `list`
#[derive(Args)]
pub(super) struct List {
    /// At most so many
    #[arg(long, value_name = "RECORDS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// `redrive`
#[derive(Args)]
pub(super) struct Those {
    /// Their topic
    topic: String,
    /// Only the one of this dedup key, as `list` shows it
    #[arg(long)]
    key: Option<String>,
    /// Changes nothing, and says how many there are
    #[arg(long)]
    dry_run: bool,
    /// A JSON object
    #[arg(long)]
    json: bool,
}

/// `discard`
#[derive(Args)]
pub(super) struct Discard {
    #[command(flatten)]
    those: Those,
    /// All that were set aside of the topic: where no key says which is meant
    #[arg(long, conflicts_with = "key")]
    all: bool,
}

/// `replay`
#[derive(Args)]
pub(super) struct Replay {
    /// Its topic
    topic: String,
    /// Its dedup key in its text form: '["A1","charge"]'
    key: String,
    /// A JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: Command, out: Out<'_>) -> Result<End, Trouble> {
    if let Command::Discard(args) = &command
        && !args.all
        && args.those.key.is_none()
    {
        let words =
            "what is discarded is gone: give the record's `--key`, or `--all` for all that were set aside of the topic";
        return Err(Trouble::Asked(words.to_owned()));
    }
    let url = database_url()?;
    current(&url).await?;
    let outbox = Outbox::open(&url, command.access()).await?;
    match command {
        Command::List(args) => list(&args, &outbox, out).await,
        Command::Redrive(args) if args.dry_run => count(&args, &outbox, out).await,
        Command::Redrive(args) => {
            let done = outbox.redrive(&args.topic, args.key.as_deref()).await?;
            tell(done, "to be sent again", args.json, args.key.is_some(), out)
        }
        Command::Discard(Discard { those, .. }) if those.dry_run => count(&those, &outbox, out).await,
        Command::Discard(Discard { those, .. }) => {
            let done = outbox.discard(&those.topic, those.key.as_deref()).await?;
            tell(done, "given up", those.json, those.key.is_some(), out)
        }
        Command::Replay(args) => {
            let done = outbox.replay(&args.topic, &args.key).await?;
            if done == 0 && !args.json {
                writeln!(
                    out,
                    "no such record is kept: relays keep what they sent for as long as `relay_keep_sent` says"
                )?;
                return Ok(End::Partly);
            }
            tell(done, "to be sent once more", args.json, true, out)
        }
    }
}

impl Command {
    fn access(&self) -> Access {
        match self {
            Self::List(_) => Access::Read,
            Self::Redrive(those) | Self::Discard(Discard { those, .. }) if those.dry_run => Access::Read,
            Self::Redrive(_) | Self::Discard(_) | Self::Replay(_) => Access::Change,
        }
    }
}

async fn list(args: &List, outbox: &Outbox, out: Out<'_>) -> Result<End, Trouble> {
    // One more, to know whether there are more.
    let limit = args.limit as usize;
    let mut found = outbox.set_aside(limit.saturating_add(1)).await?;
    if found.len() > limit {
        found.truncate(limit);
        text::note("and more: --limit");
    }
    if args.json {
        for record in &found {
            writeln!(out, "{}", object(record))?;
        }
    } else if found.is_empty() {
        writeln!(out, "no record is set aside")?;
    } else {
        let rows: Vec<_> = found.iter().map(row).collect();
        text::table(out, ["TOPIC", "KEY", "AGE", "TRIES", "BYTES", "EVENT", "KAFKA KEY", "ERROR"], &rows)?;
    }
    Ok(End::Well)
}

fn row(record: &SetAside) -> [String; 8] {
    [
        text::clean(&record.topic),
        text::clean(&record.key),
        text::age(record.age),
        record.attempts.to_string(),
        record.size.to_string(),
        text::clean(record.event.as_deref().unwrap_or("-")),
        text::short(record.partition_key.as_deref().unwrap_or("-"), 40),
        text::short(&record.error, 100),
    ]
}

fn object(record: &SetAside) -> serde_json::Value {
    json!({
        "topic": record.topic,
        "key": record.key,
        "partition_key": record.partition_key,
        "event": record.event,
        "attempts": record.attempts,
        "error": record.error,
        "age_seconds": record.age.as_secs(),
        "bytes": record.size,
    })
}

async fn count(those: &Those, outbox: &Outbox, out: Out<'_>) -> Result<End, Trouble> {
    let count = outbox.count(&those.topic, those.key.as_deref()).await?;
    match those.json {
        true => writeln!(out, "{}", json!({ "fit": count }))?,
        false => writeln!(out, "{count} record(s) fit; nothing was changed")?,
    }
    // As the command itself ends.
    Ok(if count == 0 && those.key.is_some() { End::Partly } else { End::Well })
}

/// What is named has to be there.
fn tell(done: u64, what: &str, json: bool, named: bool, out: Out<'_>) -> Result<End, Trouble> {
    match json {
        true => writeln!(out, "{}", json!({ "records": done }))?,
        false if done == 0 => writeln!(out, "no such record: `outbox list` shows those that were set aside")?,
        false => writeln!(out, "{done} record(s) {what}")?,
    }
    Ok(if done == 0 && named { End::Partly } else { End::Well })
}
