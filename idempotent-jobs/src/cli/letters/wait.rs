//! Waits for what was asked for.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::super::text::short;
use super::{End, Out, Trouble};
use crate::dead_letters::{DeadLetters, LetterState};
use crate::store::Standing;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Letters of one look.
const PAGE: usize = 500;

/// Tells of each letter how it ended, until all have or the time is over.
pub(super) async fn wait(
    letters: &DeadLetters,
    mut requested: Vec<i64>,
    limit: Duration,
    json: bool,
    out: Out<'_>,
) -> Result<End, Trouble> {
    let deadline = Instant::now() + limit;
    let mut end = End::Well;
    loop {
        let mut left = Vec::new();
        for page in requested.chunks(PAGE) {
            for letter in letters.standings(page).await? {
                match letter.state {
                    LetterState::Requested => left.push(letter.id),
                    state => {
                        end = end.max(if state == LetterState::Open { End::Partly } else { End::Well });
                        tell(&letter, json, out)?;
                    }
                }
            }
        }
        requested = left;
        if requested.is_empty() {
            return Ok(end);
        }
        if Instant::now() >= deadline {
            return late(&requested, json, out);
        }
        out.flush()?;
        sleep(LOOK).await;
    }
}

fn tell(letter: &Standing, json: bool, out: Out<'_>) -> Result<(), Trouble> {
    if json {
        let error = (letter.state == LetterState::Open).then_some(letter.error.as_str());
        writeln!(out, "{}", json!({ "id": letter.id, "ended": letter.state.as_str(), "error": error }))?;
        return Ok(());
    }
    match letter.state {
        LetterState::Open => {
            writeln!(out, "{}  died again ({}): {}", letter.id, letter.reason, short(&letter.error, 200))?
        }
        state => writeln!(out, "{}  {state}", letter.id)?,
    }
    Ok(())
}

fn late(left: &[i64], json: bool, out: Out<'_>) -> Result<End, Trouble> {
    for id in left {
        match json {
            true => writeln!(out, "{}", json!({ "id": id, "ended": null }))?,
            false => writeln!(out, "{id}  still requested")?,
        }
    }
    if !json {
        writeln!(
            out,
            "{} not taken in time: does a worker of their group run their jobs, and does it reach the database? \
             They stay requested, and run once one does",
            left.len()
        )?;
    }
    Ok(End::Partly)
}
