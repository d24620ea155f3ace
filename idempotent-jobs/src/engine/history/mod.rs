//! Where a partition is read from: what Kafka and the database say of it, compared. Pure.
//!
//! Invariant: in a database that lost nothing, its watermark is at or above every offset that a worker
//! committed to Kafka, and everything below the watermark is settled in that database. So
//!
//! * a worker's committed offset above the watermark says that the database lost history: it is read again
//!   from the watermark on, and the claims that are there keep single what is done in this database;
//! * a committed offset that is gone is known from the watermark;
//! * an offset that somebody else set is obeyed, unless keys are missing that would keep its messages single.
//!
//! Whose offset it is tells the [mark](mark) that workers leave beside it.

mod mark;

use std::fmt;

use self::mark::Mark;
use crate::kafka::{Facts, Partition};
use crate::store::Watermark;

/// What happens when a partition is to be read from where the database does not have all keys: they were
/// purged, or it never had them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMissingKeys {
    /// The worker stops with an error that names the offsets: the messages might be done twice.
    #[default]
    Stop,
    /// They are named in an error log line, and reading goes on.
    Report,
}

/// What is done about a partition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The row as it is to be.
    pub row: Watermark,
    /// The first offset to read.
    pub start: i64,
    /// What is worth telling.
    pub finding: Option<Finding>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The database does not have what was done up to `to`.
    LostHistory { from: i64, to: i64 },
    /// The group has no committed offset any more.
    OffsetMissing { watermark: i64 },
    /// The topic was deleted and made anew, or its log was cut off at its end.
    Recreated { watermark: i64, start: i64 },
    /// Somebody moved the group's offset forward.
    MovedAhead { from: i64, to: i64 },
    /// Somebody moved the group's offset behind keys that were purged.
    KeysPurged { start: i64, purged_to: i64 },
    /// The group's offset is of a worker on another database.
    OtherDatabase { committed: i64, began: i64 },
}

impl Finding {
    /// The word of metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::LostHistory { .. } => "lost_history",
            Self::OffsetMissing { .. } => "offset_missing",
            Self::Recreated { .. } => "topic_recreated",
            Self::MovedAhead { .. } => "moved_ahead",
            Self::KeysPurged { .. } => "keys_purged",
            Self::OtherDatabase { .. } => "other_database",
        }
    }
}

impl Finding {
    /// Whether nothing was lost, and reading goes on as somebody meant it.
    pub fn is_mild(&self) -> bool {
        matches!(self, Self::OffsetMissing { .. } | Self::MovedAhead { .. })
    }

    /// Whether it may be found for a moment of a partition on which a worker works.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::KeysPurged { .. })
    }

    /// What to do.
    pub fn advice(&self) -> String {
        match self {
            Self::LostHistory { .. } => {
                "a worker reads them again at its next assignment; find out which copy was put in \
                 place of the database, and whether anything outside of it was done twice"
                    .to_owned()
            }
            Self::OffsetMissing { .. } => "nothing: a worker goes on there. Raise the brokers' \
                 `offsets.retention.minutes` if the group rests for longer than that"
                .to_owned(),
            Self::Recreated { .. } => {
                "nothing, if that was meant: a worker reads the new log from its start".to_owned()
            }
            Self::MovedAhead { from, .. } => format!(
                "nothing, if that was meant; otherwise stop the workers and set the group's offset back to {from} with \
                 `kafka-consumer-groups.sh --reset-offsets`"
            ),
            Self::OtherDatabase { committed, began } => format!(
                "to do them in this database too, set the group's offset to {began} with `kafka-consumer-groups.sh \
                 --reset-offsets` while no worker runs, and to leave them out, to {committed}; if DATABASE_URL is simply the \
                 wrong one, set it to the database that the group worked on"
            ),
            Self::KeysPurged { purged_to, .. } => format!(
                "set the group's offset to {purged_to} or above with `kafka-consumer-groups.sh --reset-offsets`, or, where it \
                 does no harm to do them again, `Worker::builder().on_missing_keys(OnMissingKeys::Report)`"
            ),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostHistory { from, to } => write!(
                f,
                "the database lost history: offset {to} was committed, and it knows only what is below {from} (an older \
                 copy was restored, or a standby that lagged took over). The {} offset(s) from {from} on are read again; \
                 what is done in this database is skipped",
                to - from
            ),
            Self::OffsetMissing { watermark } => write!(
                f,
                "the group has no committed offset, which expired, was deleted or was never written: the database knows \
                 that all below {watermark} is done, and reading goes on there"
            ),
            Self::Recreated { watermark, start } => write!(
                f,
                "the topic was made anew, or its log was cut off: all below {watermark} was done of the log as it was, \
                 and this one is read from its start, {start}"
            ),
            Self::MovedAhead { from, to } => {
                write!(f, "somebody moved the group's offset from {from} ahead to {to}: what lies between is not read")
            }
            Self::KeysPurged { start, purged_to } => write!(
                f,
                "it is to be read from offset {start}, but keys of messages below {purged_to} were purged from the database: \
                 these messages would be done again"
            ),
            Self::OtherDatabase { committed, began } => write!(
                f,
                "the group's offset {committed} was committed by a worker on another database, and this one knows nothing \
                 of what was done from {began} on"
            ),
        }
    }
}

/// Decides where the partition is read from and what its row says. An error ends the worker.
pub(crate) fn decide(
    row: Option<&Watermark>,
    facts: &Facts,
    lineage: &str,
    missing: OnMissingKeys,
) -> Result<Decision, String> {
    // An offset beyond the log is of a log that is no more.
    let committed = facts.committed.as_ref().filter(|(offset, _)| facts.end.is_none_or(|end| *offset <= end));
    let case = Case {
        facts,
        committed: committed.map(|(offset, _)| *offset),
        mark: committed.and_then(|(_, text)| Mark::parse(text)),
        lineage,
    };
    let decision = match row {
        None => case.unknown(),
        Some(row) if case.is_anew(row) => case.anew(row),
        Some(row) => case.known(row),
    };
    let decision = decision.checked();
    let lacks = matches!(decision.finding, Some(Finding::KeysPurged { .. } | Finding::OtherDatabase { .. }));
    match &decision.finding {
        Some(finding) if lacks && missing == OnMissingKeys::Stop => Err(refusal(&facts.partition, finding)),
        _ => Ok(decision),
    }
}

/// What is kept beside the partition's committed offsets.
pub(super) fn mark(row: &Watermark, lineage: &str) -> String {
    Mark { lineage: lineage.to_owned(), began: row.began, topic_id: row.topic_id.clone() }.to_string()
}

fn refusal(partition: &Partition, finding: &Finding) -> String {
    let Partition { topic, number } = partition;
    format!("topic {topic}, partition {number}: {finding}: {}", finding.advice())
}

impl Decision {
    /// Whatever the reason, keys that were purged keep nothing single any more.
    fn checked(self) -> Self {
        let Self { row, start, finding } = self;
        let purged_to = row.purged_to;
        let finding = if start < purged_to { Some(Finding::KeysPurged { start, purged_to }) } else { finding };
        Self { row, start, finding }
    }
}

struct Case<'a> {
    facts: &'a Facts,
    committed: Option<i64>,
    mark: Option<Mark>,
    lineage: &'a str,
}

impl Case<'_> {
    /// Whether a worker committed it while the topic was another one.
    fn is_stale(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| differ(mark.topic_id.as_ref(), self.facts.topic_id.as_ref()))
    }

    /// A row that is made or begun again.
    fn row(&self, began: i64, offset: i64) -> Watermark {
        let Partition { topic, number } = &self.facts.partition;
        let topic_id = self.facts.topic_id.clone();
        Watermark { topic: topic.clone(), partition: *number, topic_id, began, offset, purged_to: 0 }
    }

    fn begin(&self, at: i64, finding: Option<Finding>) -> Decision {
        Decision { row: self.row(at, at), start: at, finding }
    }

    /// Without a row.
    fn unknown(&self) -> Decision {
        let Facts { start, end, latest, .. } = *self.facts;
        match (self.committed, &self.mark) {
            (None, _) => self.begin(end.filter(|_| latest).unwrap_or(start), None),
            (Some(committed), None) => self.begin(committed, None),
            (Some(committed), Some(_)) if self.is_stale() => {
                self.begin(start, Some(Finding::Recreated { watermark: committed, start }))
            }
            (Some(committed), Some(mark)) => self.followed(mark, committed),
        }
    }

    /// A worker committed it, and the database does not know of it.
    fn followed(&self, mark: &Mark, committed: i64) -> Decision {
        let began = mark.began;
        match mark.lineage == self.lineage {
            true => self.lost(began, committed),
            false => self.begin(committed, Some(Finding::OtherDatabase { committed, began })),
        }
    }

    /// The database knows nothing of what was done from `began` on.
    fn lost(&self, began: i64, committed: i64) -> Decision {
        let lost = (began < committed).then_some(Finding::LostHistory { from: began, to: committed });
        self.begin(began.min(committed), lost)
    }

    /// Whether the row is of a topic that is no more.
    fn is_anew(&self, row: &Watermark) -> bool {
        let known = (row.topic_id.as_ref(), self.facts.topic_id.as_ref());
        let same = matches!(known, (Some(_), Some(_))) && !differ(known.0, known.1);
        let beyond = self.committed.is_none() && self.facts.end.is_some_and(|end| row.offset > end);
        differ(known.0, known.1) || (beyond && !same)
    }

    fn anew(&self, row: &Watermark) -> Decision {
        let (start, watermark) = (self.facts.start, row.offset);
        let anew = Some(Finding::Recreated { watermark, start });
        match (self.committed, &self.mark) {
            (Some(committed), None) => self.begin(committed, anew),
            // Committed since: the database is of a time before the topic was made anew.
            (Some(committed), Some(mark)) if mark.topic_id.is_some() && !self.is_stale() => {
                self.followed(mark, committed)
            }
            _ => self.begin(start, anew),
        }
    }

    /// With a row of this topic.
    fn known(&self, row: &Watermark) -> Decision {
        let watermark = row.offset;
        let topic_id = self.facts.topic_id.clone().or_else(|| row.topic_id.clone());
        let same = Watermark { topic_id, ..row.clone() };
        // One of a topic that is no more says nothing of this one.
        let Some(committed) = self.committed.filter(|_| !self.is_stale()) else { return self.missing(same) };
        if committed <= watermark {
            return Decision { row: same, start: committed, finding: None };
        }
        let ahead = match &self.mark {
            Some(mark) if mark.lineage == self.lineage => {
                let lost = Finding::LostHistory { from: watermark, to: committed };
                return Decision { row: same, start: watermark, finding: Some(lost) };
            }
            Some(_) => Finding::OtherDatabase { committed, began: watermark },
            None => Finding::MovedAhead { from: watermark, to: committed },
        };
        Decision { row: Watermark { offset: committed, ..same }, start: committed, finding: Some(ahead) }
    }

    /// Nothing is committed.
    fn missing(&self, row: Watermark) -> Decision {
        let (start, watermark) = (self.facts.start, row.offset);
        if self.facts.end.is_some_and(|end| watermark > end) {
            // The same topic, whose log lost its end: what was purged is known as before.
            let cut = Finding::Recreated { watermark, start };
            return Decision { row: Watermark { offset: start, began: start, ..row }, start, finding: Some(cut) };
        }
        // Right behind the first start nothing was committed yet.
        let told = (watermark > row.began).then_some(Finding::OffsetMissing { watermark });
        Decision { row, start: watermark, finding: told }
    }
}

/// Whether both are known, and not the same.
fn differ(one: Option<&String>, other: Option<&String>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

#[cfg(test)]
mod tests;
