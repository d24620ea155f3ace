//! What follows from a group's committed offsets and the database's watermarks: the judgement of a worker at its
//! assignment, without its deeds. Pure.
//!
//! The brokers were asked before the database, so that a worker that lives is never behind what it committed. What else
//! may pass while it works is judged only of groups that are known to have no members.

use super::{Finding, Report, Severity};
use crate::engine::history::{self, OnMissingKeys};
use crate::kafka::{Cluster, Facts, Group, Partition, Progress};
use crate::store::{Marks, Watermark};

/// The check's word.
const CHECK: &str = "group.history";

pub(crate) fn judge(cluster: &Cluster, marks: &Marks) -> Vec<Finding> {
    let mut report = Report::default();
    for group in &cluster.groups {
        let before = report.0.len();
        for progress in group.progress.iter().flatten() {
            partition(cluster, group, progress, marks, &mut report);
        }
        let is_known = group.progress.as_ref().is_ok_and(|progress| !progress.is_empty()) && group.unread.is_empty();
        if report.0.len() == before && is_known {
            let place = format!("group `{}`", group.name);
            report.ok(CHECK, place, "its committed offsets are those of this database");
        }
    }
    report.0
}

fn partition(cluster: &Cluster, group: &Group, it: &Progress, marks: &Marks, report: &mut Report) {
    let topic_id = cluster.topics.iter().find(|topic| topic.name == it.topic).and_then(|topic| topic.id.clone());
    let facts = Facts {
        partition: Partition { topic: it.topic.as_str().into(), number: it.partition },
        committed: it.committed.map(|offset| (offset, it.mark.clone())),
        start: it.start,
        end: Some(it.end),
        topic_id,
        latest: false,
    };
    let is_its = |row: &Watermark| *row.topic == *it.topic && row.partition == it.partition;
    let row = marks.rows.iter().find(|(of, row)| *of == group.name && is_its(row)).map(|(_, row)| row);
    // Judged as if it went on: what would stop a worker is a finding, and not the end of this look.
    let Ok(decision) = history::decide(row, &facts, &marks.lineage, OnMissingKeys::Report) else { return };
    let Some(finding) = decision.finding else { return };
    let rests = matches!(group.members, Ok((_, 0)));
    if !rests && (it.committed.is_none() || finding.may_pass()) {
        return;
    }
    let severity = if finding.is_mild() { Severity::Warning } else { Severity::Error };
    let place = format!("group `{}`, topic `{}`, partition {}", group.name, it.topic, it.partition);
    let what = format!("{} ({})", finding, finding.word());
    report.add(severity, CHECK, place, what, &finding.advice());
}

#[cfg(test)]
mod tests;
