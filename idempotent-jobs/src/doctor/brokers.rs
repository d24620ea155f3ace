//! What follows from a look at the brokers. Pure.

use super::Report;
use crate::kafka::{Cluster, Group, Progress, Topic, alike};

/// So many messages of a partition that wait are worth a word.
const LAG: i64 = 10_000;

pub(super) fn judge(cluster: &Cluster, place: &str, report: &mut Report) {
    report.ok("brokers.reach", place, format!("{} broker(s) answer", cluster.brokers));
    for topic in &cluster.topics {
        self::topic(topic, report);
    }
    for group in &cluster.groups {
        members(group, report);
        progress(group, report);
    }
}

/// Of groups that are named, where it is known which jobs ran: no topic is one of them.
pub(super) fn judge_names(cluster: &Cluster, report: &mut Report) {
    for group in cluster.groups.iter().filter(|_| cluster.topics.is_empty()) {
        let advice =
            "set `KAFKA_GROUP_ID` to what the workers have, or leave it out to look at all groups of the database";
        let place = format!("group `{}`", group.name);
        report.warning("group.name", place, "no job of this group ran on the database", advice);
    }
}

fn topic(topic: &Topic, report: &mut Report) {
    let place = format!("topic `{}`", topic.name);
    if let Some(problem) = &topic.problem {
        return report.error("topic.exists", place, problem.as_str(), "");
    }
    report.ok("topic.exists", place.as_str(), format!("{} partition(s)", topic.partitions.len()));
    match &topic.settings {
        Ok(settings) => {
            let setting = |name: &str| settings.get(name).map(String::as_str);
            replicas(&place, topic, setting("min.insync.replicas").and_then(|value| value.parse().ok()), report);
            cleanup(
                &place,
                setting("cleanup.policy"),
                setting("retention.ms"),
                setting("segment.ms"),
                setting("message.timestamp.type"),
                report,
            );
        }
        Err(why) => {
            replicas(&place, topic, None, report);
            let what = format!("its settings cannot be read: {why}");
            report.warning(
                "topic.settings",
                place.as_str(),
                what,
                "allow DescribeConfigs on the topic, so that they can be checked",
            );
        }
    }
    if topic.ahead > 0 {
        let what =
            format!("{} partition(s) have messages dated more than 5 min ahead of this machine's clock", topic.ahead);
        let advice = "synchronise clocks (NTP): of producers, or of brokers with `message.timestamp.type=LogAppendTime`; \
             retention counts from these dates";
        report.warning("topic.clock", place, what, advice);
    }
}

fn replicas(place: &str, topic: &Topic, least: Option<usize>, report: &mut Report) {
    let leaderless = topic.partitions.iter().filter(|it| it.leader.is_none()).count();
    if leaderless > 0 {
        let what = format!("{leaderless} partition(s) have no leader: nothing of them is read or written");
        report.error("topic.partitions", place, what, "bring the brokers back that have them");
    }
    let few = topic.partitions.iter().filter(|it| least.is_some_and(|least| it.in_sync < least)).count();
    if few > 0 {
        let what = format!(
            "{few} partition(s) have fewer replicas in sync than `min.insync.replicas`: nothing can be written to them"
        );
        report.error("topic.replicas", place, what, "bring the brokers back that have the others");
    }
    let copies = topic.partitions.iter().map(|it| it.all).min().unwrap_or(0);
    if copies < 2 {
        let what = "one replica: a broker that is lost takes messages with it";
        report.warning("topic.replicas", place, what, "give it a replication factor of 3 and `min.insync.replicas=2`");
    } else if least.is_some_and(|least| least < 2) {
        let what = "`min.insync.replicas` is 1: a message that one broker has counts as sent, and is lost with it";
        report.warning("topic.replicas", place, what, "set it to 2");
    } else if few == 0 {
        report.ok("topic.replicas", place, format!("{copies} replicas"));
    }
}

fn cleanup(
    place: &str,
    policy: Option<&str>,
    retention: Option<&str>,
    segment: Option<&str>,
    dates: Option<&str>,
    report: &mut Report,
) {
    if policy.is_some_and(|policy| policy.contains("compact")) {
        let what = "it is compacted: of several messages of one Kafka message key all but the last may be gone before they are read; a worker with a retention window is refused for it";
        report.warning("topic.cleanup", place, what, "`cleanup.policy=delete` for a topic of jobs");
        return;
    }
    let number = |setting: Option<&str>| setting.and_then(|value| value.parse::<i64>().ok());
    let dates = dates.map(|dates| format!(", dated by {dates}")).unwrap_or_default();
    let what = match (number(retention), number(segment)) {
        (Some(..0), _) => format!(
            "messages are kept for ever{dates}; a worker with a retention window is refused for it, and keys stay too"
        ),
        (Some(kept), Some(segment)) => format!(
            "messages are kept for {} h{dates}; a worker's retention window is {} h or more, with `segment.ms`, and the \
             resend horizon comes on top",
            kept / 3_600_000,
            hours(kept.saturating_add(segment.max(0)))
        ),
        (Some(kept), None) => format!("messages are kept for {} h{dates}", kept / 3_600_000),
        (None, _) => format!("how long messages are kept is not said{dates}"),
    };
    report.ok("topic.cleanup", place, what);
}

/// Hours, none too few.
fn hours(millis: i64) -> i64 {
    millis.saturating_add(3_599_999) / 3_600_000
}

fn members(group: &Group, report: &mut Report) {
    let place = format!("group `{}`", group.name);
    match &group.members {
        Ok((state, 0)) => {
            let what = format!("it has no members (state {state})");
            report.warning(
                "group.members",
                place,
                what,
                "start a worker; if one runs, it has another `KAFKA_GROUP_ID` or other brokers than this tool",
            );
        }
        Ok((state, members)) if state == "Stable" => {
            report.ok("group.members", place, format!("{members} member(s)"));
        }
        Ok((state, members)) => {
            let what = format!("{members} member(s), and a rebalance is going on (state {state})");
            report.warning(
                "group.members",
                place,
                what,
                "look again in a minute: members that come and go, or do not poll, keep it going",
            );
        }
        Err(why) => report.warning(
            "group.members",
            place,
            format!("its members cannot be read: {why}"),
            "allow Describe on the group; the embedded broker cannot say",
        ),
    }
}

fn progress(group: &Group, report: &mut Report) {
    let place = format!("group `{}`", group.name);
    let progress = match &group.progress {
        Ok(progress) => progress,
        Err(why) => return report.error("group.progress", place, why.as_str(), "allow Read on the group"),
    };
    let before = report.0.len();
    for ((topic, why), partitions) in alike(&group.unread) {
        let what = format!(
            "of {} partition(s), {}, nobody knows how far they are read: where their logs begin and end cannot be asked: {why}",
            partitions.len(),
            numbers(&partitions)
        );
        let place = format!("{place}, topic `{topic}`");
        report.error("group.progress", place, what, "bring the brokers back that lead them, and look again");
    }
    for it in progress {
        partition(&place, it, report);
    }
    let lag: i64 = progress.iter().map(Progress::lag).sum();
    if report.0.len() == before {
        report.ok(
            "group.progress",
            place,
            format!("{lag} message(s) of {} partition(s) are still to be read", progress.len()),
        );
    }
}

/// `0, 1, 2, …`
pub(crate) fn numbers(partitions: &[i32]) -> String {
    const SHOWN: usize = 10;
    let more = if partitions.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<_> = partitions.iter().take(SHOWN).map(i32::to_string).collect();
    format!("{}{more}", shown.join(", "))
}

fn partition(place: &str, it: &Progress, report: &mut Report) {
    let Progress { topic, partition, committed, start, end, .. } = it;
    let place = format!("{place}, topic `{topic}`, partition {partition}");
    match committed {
        Some(committed) if committed > end => {
            let what = format!(
                "its committed offset is {committed}, and the log ends at {end}: the topic was made anew, or is another cluster's"
            );
            report.error(
                "group.progress",
                place,
                what,
                "nothing, if the topic was made anew on purpose: a worker reads the new log from its start; otherwise \
                 KAFKA_BROKERS names another cluster; keep the group, another one is refused on this database",
            );
        }
        Some(committed) if committed < start => {
            let lost = start - committed;
            let what = format!(
                "{lost} message(s) were deleted before they were read (next offset {committed}, the log starts at {start})"
            );
            let advice = "workers stop there: set the group's offset to the log's start to accept the loss, and raise the topic's retention";
            report.error("group.progress", place, what, advice);
        }
        _ if it.lag() > LAG => {
            let what = format!("{} message(s) are still to be read", it.lag());
            report.warning(
                "group.progress",
                place,
                what,
                "`idempotent-jobs status --watch` shows whether they become fewer; if not, `idempotent-jobs dead-letters \
                 parked` shows full lanes, and the workers' log line \"this message does not get done\" names the offset",
            );
        }
        _ => {}
    }
}
