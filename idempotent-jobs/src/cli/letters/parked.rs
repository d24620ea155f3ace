//! `parked`: lanes that wait.

use clap::Args;
use serde_json::json;

use super::super::text::{age_of, bytes, clean, millis, short, table};
use super::{End, Out, Trouble};
use crate::dead_letters::{DeadLetters, LetterState, ParkedLane};
use crate::key::hex;

pub(super) const PARKED: &str = "\
BEHIND   the dead letter to decide on: the others wait for it
STATE    of that letter; requested: workers run it and then the others, and there is nothing to decide
WAITING  messages that wait behind it, each kept whole; FULL means that no more are taken in, and that the
         partition comes to stand still

  idempotent-jobs dead-letters show 17               what is wrong with it
  idempotent-jobs dead-letters redrive 17            its cause is mended: it is run, then the others, in order
  idempotent-jobs dead-letters skip 17               it is not run, and the others are
  idempotent-jobs dead-letters list --state parked   the messages that wait";

/// `parked`
#[derive(Args)]
pub(in crate::cli) struct Parked {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn parked(args: &Parked, letters: &DeadLetters, out: Out<'_>) -> Result<End, Trouble> {
    let lanes = letters.parked().await?;
    if args.json {
        for lane in &lanes {
            writeln!(out, "{}", object(lane))?;
        }
    } else if lanes.is_empty() {
        writeln!(out, "no message waits behind a dead letter")?;
    } else {
        let rows: Vec<_> = lanes.iter().map(row).collect();
        table(out, ["BEHIND", "STATE", "WAITING", "SINCE", "JOB", "GROUP", "PARTITION", "KAFKA KEY"], &rows)?;
    }
    Ok(End::Well)
}

fn row(lane: &ParkedLane) -> [String; 8] {
    let full = if lane.full_since.is_some() { " FULL" } else { "" };
    [
        lane.head.to_string(),
        if lane.head_requested { LetterState::Requested } else { LetterState::Open }.to_string(),
        format!("{}{full}", lane.waiting),
        age_of(lane.since),
        clean(&lane.job),
        clean(&lane.group),
        clean(&format!("{}/{}", lane.topic, lane.partition)),
        lane.key.as_deref().map_or_else(|| "-".to_owned(), |key| short(&bytes(key), 40)),
    ]
}

/// A lane for scripts.
pub(in crate::cli) fn object(lane: &ParkedLane) -> serde_json::Value {
    json!({
        "behind": lane.head,
        "behind_requested": lane.head_requested,
        "waiting": lane.waiting,
        "full": lane.full_since.is_some(),
        "since_ms": millis(lane.since),
        "full_since_ms": lane.full_since.map(millis),
        "job": lane.job,
        "group": lane.group,
        "topic": lane.topic,
        "partition": lane.partition,
        "message_key_hex": lane.key.as_deref().map(hex),
    })
}
