//! Which dead letters are meant.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::text::{note, parse_age};
use super::{End, Trouble};
use crate::dead_letters::{DeadLetters, Filter, LetterState};
use crate::error::Reason;

/// A choice: those that fit everything that is given.
#[derive(Args)]
pub(super) struct Which {
    /// Numbers of dead letters, as `list` shows them, whatever their state
    #[arg(value_name = "NUMBER")]
    ids: Vec<i64>,
    /// Only of this job
    #[arg(long)]
    job: Option<String>,
    /// Only of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only of this reason, as `list` shows it: exhausted, terminal, conflict, decode, …
    #[arg(long, value_parser = parse_reason)]
    reason: Option<String>,
    /// Only of this dedup key in its text form: '["A1","charge"]'
    #[arg(long)]
    key: Option<String>,
    /// Only in this state: open (the default), requested, redriven, skipped, parked; all is any
    #[arg(long)]
    state: Option<Wanted>,
    /// Only those that died longer ago than this: 90s, 15m, 2h, 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<Duration>,
    /// Only those that died within this time: 90s, 15m, 2h, 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    younger_than: Option<Duration>,
    /// At most so many, the oldest first
    #[arg(long, value_name = "LETTERS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,
}

/// A state, or any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    Only(LetterState),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == "all" { Ok(Self::All) } else { word.parse().map(Self::Only) }
    }
}

impl Which {
    pub(super) fn filter(&self) -> Filter {
        let mut filter = match self.state {
            None if self.ids.is_empty() => Filter::open(),
            None | Some(Wanted::All) => Filter::default(),
            Some(Wanted::Only(state)) => Filter::default().state(state),
        };
        if !self.ids.is_empty() {
            filter = filter.ids(self.ids.iter().copied());
        }
        filter = self.job.iter().fold(filter, Filter::job);
        filter = self.topic.iter().fold(filter, Filter::topic);
        filter = self.reason.iter().fold(filter, Filter::reason);
        filter = self.key.iter().fold(filter, Filter::key);
        filter = self.older_than.into_iter().fold(filter, Filter::older_than);
        filter = self.younger_than.into_iter().fold(filter, Filter::younger_than);
        self.limit.into_iter().fold(filter, Filter::limit)
    }

    /// Whether anything narrows it.
    pub(super) fn is_narrow(&self) -> bool {
        let texts = [&self.job, &self.topic, &self.reason, &self.key];
        !self.ids.is_empty()
            || texts.iter().any(|text| text.is_some())
            || self.older_than.or(self.younger_than).is_some()
            || self.limit.is_some()
            || matches!(self.state, Some(Wanted::Only(_)))
    }

    /// Whether letters of any state are meant.
    pub(super) fn is_of_any_state(&self) -> bool {
        self.state == Some(Wanted::All)
    }

    /// What was named has to be there: says on the error output which numbers are not.
    pub(super) async fn missing(&self, letters: &DeadLetters) -> Result<End, Trouble> {
        let there: HashSet<i64> = letters.standings(&self.ids).await?.into_iter().map(|it| it.id).collect();
        let missing: Vec<_> = self.ids.iter().filter(|id| !there.contains(id)).map(ToString::to_string).collect();
        if missing.is_empty() {
            return Ok(End::Well);
        }
        note(&format!("there is no dead letter {}", missing.join(", ")));
        Ok(End::Partly)
    }

    /// What to try when nothing fits.
    pub(super) fn hint(&self) -> &'static str {
        if self.state.is_none() && self.ids.is_empty() {
            "; only open ones were looked at: --state all for any"
        } else {
            ""
        }
    }
}

/// A word that is mistyped fits nothing, which would look like good news.
fn parse_reason(word: &str) -> Result<String, String> {
    let known = Reason::ALL.map(Reason::as_str);
    if known.contains(&word) { Ok(word.to_owned()) } else { Err(format!("it is one of: {}", known.join(", "))) }
}
