//! `status`: how far the work is, and how fast it goes.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use serde_json::{Value, json};

use super::doctor::object as finding_object;
use super::letters::lane_object;
use super::text::{age, clean, millis, parse_age, patiently, table, utc};
use super::{End, Out, Trouble, database_url, tables};
use crate::doctor::{Finding, Severity, judge_history, numbers, readers};
use crate::kafka::{self, Cluster, Group, Progress, Properties, Unread, alike};
use crate::store::{self, Contents, Count, Database, Lanes, MOST, Owners};

/// `status`
#[derive(Args)]
pub(super) struct Status {
    /// Again and again, until Ctrl-C
    #[arg(long, short)]
    watch: bool,
    /// Between the two looks that rates are taken from: 2s, 1m
    #[arg(long, value_name = "AGE", default_value = "2s", value_parser = parse_age)]
    interval: Duration,
    /// One JSON object a look, with each partition
    #[arg(long)]
    json: bool,
}

pub(super) const MEANING: &str = "\
LAG       messages that are still to be read and done
DONE/S    messages a second whose offset was committed between two looks
COMING/S  messages a second that were written to the topic meanwhile
EMPTY IN  when the lag is gone, should both go on so

A lag that grows while DONE/S is 0: a partition stands still. Look for FULL below; then in the workers' log for
\"this message does not get done\", which names the offset; then let `idempotent-jobs doctor` look.

A lane is the messages of one Kafka message key (with ordering = partition, of one partition). Where a job says `on_exhausted = park`, its later ones are parked
behind one that died: `idempotent-jobs dead-letters parked`.

Exit codes:
  0  all was looked at
  1  the brokers, or some topics or partitions, were not: the rest is shown, and its LAG is of the rest; or no job
     of the group that KAFKA_GROUP_ID names ran on the database
  2  the database was not reached, or its tables are missing or of another version";

/// How long the brokers may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A look at everything.
#[derive(Clone)]
struct Sample {
    at: Instant,
    time: SystemTime,
    /// What is in the tables, or why that is not known.
    contents: Result<Contents, String>,
    cluster: Result<Cluster, Vec<String>>,
    /// What of the committed offsets and the watermarks does not fit.
    history: Vec<Finding>,
}

pub(super) async fn run(args: &Status, out: Out<'_>) -> Result<End, Trouble> {
    let url = database_url()?;
    let properties = Properties::from_env();
    let mut before = patiently(look(&url, &properties)).await;
    loop {
        // Of brokers that are away there are no rates.
        let now = if before.cluster.is_err() && !args.watch {
            before.clone()
        } else {
            tokio::time::sleep(args.interval).await;
            look(&url, &properties).await
        };
        if args.json {
            writeln!(out, "{}", object(&before, &now))?
        } else {
            tell(args.watch, &before, &now, out)?
        }
        out.flush()?;
        if !args.watch {
            return Ok(match (&now.contents, &now.cluster) {
                (Err(_), _) => End::Wrong,
                (_, Ok(cluster)) if is_whole(cluster) => End::Well,
                _ => End::Partly,
            });
        }
        before = now;
    }
}

async fn look(url: &str, properties: &Properties) -> Sample {
    let contents = store::inspect(url).await.map_err(|error| error.to_string()).and_then(contents);
    let known = contents.as_ref().cloned().unwrap_or_default();
    let cluster = kafka::inspect(properties, readers(&known, properties.group_id()), PATIENCE).await;
    let (at, time) = (Instant::now(), SystemTime::now());
    let mut history = Vec::new();
    if let (Ok(cluster), Ok(_)) = (&cluster, &contents)
        && let Ok(marks) = store::marks(url).await
    {
        history = judge_history(cluster, &marks);
        history.retain(|finding| finding.severity > Severity::Ok);
    }
    Sample { at, time, contents, cluster, history }
}

/// Whether nothing is left out.
fn is_whole(cluster: &Cluster) -> bool {
    cluster.topics.iter().all(|topic| topic.problem.is_none())
        && cluster.groups.iter().all(|group| group.progress.is_ok() && group.unread.is_empty())
        // Otherwise the groups are of no job.
        && cluster.topics.is_empty() == cluster.groups.is_empty()
}

/// What is in the tables, or why that cannot be told.
fn contents(found: Database) -> Result<Contents, String> {
    if found.pooled {
        return Err("a pooling proxy stands before it: `idempotent-jobs doctor`".to_owned());
    }
    tables(&found.tables)?;
    found.contents.ok_or_else(|| "its tables cannot be read: `idempotent-jobs doctor`".to_owned())
}

/// A topic as a group reads it.
#[derive(Debug, Default, PartialEq)]
struct Row {
    partitions: usize,
    lag: i64,
    done: f64,
    coming: f64,
}

impl Row {
    /// When the lag is gone, if it becomes less.
    fn empty_in(&self) -> Option<Duration> {
        let gain = self.done - self.coming;
        match self.lag {
            0 => Some(Duration::ZERO),
            _ if gain > 0.0 => Duration::try_from_secs_f64(self.lag as f64 / gain).ok(),
            _ => None,
        }
    }
}

/// What became of each topic between two looks that lie so far apart.
fn rows(before: Option<&Group>, now: &[Progress], passed: Duration) -> BTreeMap<String, Row> {
    let earlier = before.and_then(|group| group.progress.as_ref().ok());
    let seconds = passed.as_secs_f64().max(0.001);
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for it in now {
        let row = rows.entry(it.topic.clone()).or_default();
        row.partitions += 1;
        row.lag += it.lag();
        let same = |other: &&Progress| other.topic == it.topic && other.partition == it.partition;
        let Some(other) = earlier.and_then(|earlier| earlier.iter().find(same)) else { continue };
        let done = it.committed.unwrap_or(it.start) - other.committed.unwrap_or(other.start);
        row.done += done.max(0) as f64 / seconds;
        row.coming += (it.end - other.end).max(0) as f64 / seconds;
    }
    rows
}

fn tell(watch: bool, before: &Sample, now: &Sample, out: Out<'_>) -> Result<(), Trouble> {
    if watch && std::io::stdout().is_terminal() {
        write!(out, "\x1b[H\x1b[J")?;
    }
    writeln!(out, "{}", utc(now.time))?;
    match &now.cluster {
        Ok(cluster) => tell_groups(before, now, cluster, out)?,
        Err(problems) => problems.iter().try_for_each(|problem| writeln!(out, "brokers: {}", clean(problem)))?,
    }
    match &now.contents {
        Ok(contents) => tell_contents(now, contents, out)?,
        Err(why) => writeln!(out, "database: {}", clean(why))?,
    }
    Ok(())
}

fn tell_groups(before: &Sample, now: &Sample, cluster: &Cluster, out: Out<'_>) -> Result<(), Trouble> {
    if cluster.groups.is_empty() {
        writeln!(out, "no group: no job ran on this database yet, and `KAFKA_GROUP_ID` names none")?;
    }
    for group in &cluster.groups {
        let members = match &group.members {
            Ok((state, members)) => format!("{members} member(s), {}", clean(state)),
            Err(why) => format!("members unknown: {}", clean(why)),
        };
        writeln!(out, "group {}: {members}", clean(&group.name))?;
        match &group.progress {
            Ok(_) if cluster.topics.is_empty() && now.contents.is_ok() => {
                writeln!(out, "no topic: no job of this group ran on the database. Is that its name?")?
            }
            Ok(progress) => {
                let passed = now.at.duration_since(before.at);
                let rows: Vec<_> = rows(same(before, group), progress, passed).into_iter().map(cells).collect();
                table(out, ["TOPIC", "PARTITIONS", "LAG", "DONE/S", "COMING/S", "EMPTY IN"], &rows)?;
            }
            Err(why) => writeln!(out, "progress unknown: {}", clean(why))?,
        }
        for ((topic, why), partitions) in alike(&group.unread) {
            let (topic, count, numbers) = (clean(topic), partitions.len(), numbers(&partitions));
            writeln!(out, "topic {topic}: {count} partition(s) left out, {numbers}: {}", clean(why))?;
        }
    }
    for topic in &cluster.topics {
        topic.problem.iter().try_for_each(|problem| writeln!(out, "{}", clean(problem)))?;
    }
    Ok(())
}

/// The group as it was before.
fn same<'a>(before: &'a Sample, group: &Group) -> Option<&'a Group> {
    before.cluster.as_ref().ok()?.groups.iter().find(|other| other.name == group.name)
}

fn cells((topic, row): (String, Row)) -> [String; 6] {
    [
        clean(&topic),
        row.partitions.to_string(),
        row.lag.to_string(),
        format!("{:.1}", row.done),
        format!("{:.1}", row.coming),
        row.empty_in().map_or_else(|| "-".to_owned(), age),
    ]
}

fn tell_contents(now: &Sample, contents: &Contents, out: Out<'_>) -> Result<(), Trouble> {
    for finding in &now.history {
        writeln!(out, "{}: {}: {}", finding.severity, clean(&finding.place), clean(&finding.what))?;
    }
    let outbox = &contents.outbox;
    writeln!(
        out,
        "outbox: {} to be sent, {} due later, {} set aside, {} behind those; {} relay(s)",
        told(outbox.ready),
        told(Count { oldest: None, ..outbox.later }),
        told(outbox.set_aside),
        told(Count { oldest: None, ..outbox.held }),
        contents.relays
    )?;
    writeln!(out, "dead letters: {} open, {} to be run again", told(contents.open), told(contents.requested))?;
    tell_lanes(&contents.lanes, out)?;
    writeln!(out, "messages that failed and are tried again: {}", told(contents.attempts))?;
    for owners in &contents.owners {
        tell_owners(now, owners, out)?;
    }
    for (group, ago) in &contents.sweeps {
        writeln!(out, "old keys of group {}: last purged {} ago", clean(group), age(*ago))?;
    }
    Ok(())
}

fn tell_lanes(lanes: &Lanes, out: Out<'_>) -> Result<(), Trouble> {
    if lanes.all.rows == 0 {
        return Ok(writeln!(out, "parked: 0")?);
    }
    let full = if lanes.full > 0 { format!("; FULL: {}", lanes.full) } else { String::new() };
    writeln!(out, "parked: {} message(s) in {}{full}", lanes.waiting, counted(lanes.all, "lane(s)"))?;
    for lane in lanes.first.iter().filter(|lane| lane.waiting > 0) {
        let full = if lane.full_since.is_some() { ", FULL: its partition comes to stand still" } else { "" };
        let (job, topic) = (clean(&lane.job), clean(&lane.topic));
        writeln!(
            out,
            "  {} of job {job} wait behind dead letter {}, {}{topic}/{}{full}",
            lane.waiting,
            lane.head,
            if lane.head_requested { "which is to be run, " } else { "" },
            lane.partition
        )?;
    }
    if lanes.all.rows > lanes.first.len() as u64 {
        writeln!(out, "  and more: `idempotent-jobs dead-letters parked`")?;
    }
    Ok(())
}

/// Whether a group has no members, if that is known.
fn rests(now: &Sample, group: &str) -> Option<bool> {
    let groups = &now.cluster.as_ref().ok()?.groups;
    let (_, members) = groups.iter().find(|it| it.name == group)?.members.as_ref().ok()?;
    Some(*members == 0)
}

fn tell_owners(now: &Sample, owners: &Owners, out: Out<'_>) -> Result<(), Trouble> {
    let group = clean(&owners.group);
    let partitions = counted(owners.partitions, "partition(s)");
    match rests(now, &owners.group) {
        Some(true) => writeln!(out, "group {group}: left by processes that died, and nobody reads them: {partitions}")?,
        _ => writeln!(out, "group {group}: read by a process: {partitions}")?,
    }
    if owners.deadly > 0 {
        writeln!(
            out,
            "  of {} of these the owner before died: if that goes on, a message may kill its process, and will be found",
            owners.deadly
        )?;
    }
    Ok(())
}

/// As `3 lane(s), the oldest for 2h`.
fn counted(count: Count, what: &str) -> String {
    let oldest = count.oldest.map(|oldest| format!(", the oldest for {}", age(oldest))).unwrap_or_default();
    format!("{}{} {what}{oldest}", count.rows, if count.rows >= MOST { "+" } else { "" })
}

fn told(count: Count) -> String {
    let more = if count.rows >= MOST { "+" } else { "" };
    let oldest = count.oldest.map(|oldest| format!(" (the oldest for {})", age(oldest))).unwrap_or_default();
    format!("{}{more}{oldest}", count.rows)
}

fn object(before: &Sample, now: &Sample) -> Value {
    let groups = match &now.cluster {
        Ok(cluster) => json!(cluster.groups.iter().map(|group| group_object(before, now, group)).collect::<Vec<_>>()),
        Err(problems) => json!({ "error": problems }),
    };
    let database = match &now.contents {
        Ok(contents) => contents_object(now, contents),
        Err(why) => json!({ "error": why }),
    };
    json!({ "at_ms": millis(now.time), "groups": groups, "database": database })
}

fn group_object(before: &Sample, now: &Sample, group: &Group) -> Value {
    let (state, members) = group.members.as_ref().ok().cloned().unzip();
    let progress = group.progress.as_deref().unwrap_or_default();
    let rows = rows(same(before, group), progress, now.at.duration_since(before.at));
    let topics = rows.into_iter().map(|(topic, row)| {
        let of = progress.iter().filter(|it| it.topic == topic);
        let partitions: Vec<Value> = of
            .map(|it| json!({ "partition": it.partition, "committed": it.committed, "start": it.start, "end": it.end, "lag": it.lag() }))
            .collect();
        json!({ "topic": topic, "lag": row.lag, "done_per_second": row.done, "coming_per_second": row.coming, "partitions": partitions })
    });
    json!({
        "group": group.name,
        "state": state,
        "members": members,
        "topics": topics.collect::<Vec<_>>(),
        "unread": group.unread.iter().map(unread_object).collect::<Vec<_>>(),
        "error": group.progress.as_ref().err().or(group.members.as_ref().err()),
    })
}

fn unread_object(unread: &Unread) -> Value {
    json!({ "topic": unread.topic, "partition": unread.partition, "error": unread.why })
}

fn contents_object(now: &Sample, contents: &Contents) -> Value {
    let count =
        |count: Count| json!({ "rows": count.rows, "oldest_seconds": count.oldest.map(|oldest| oldest.as_secs()) });
    let outbox = &contents.outbox;
    json!({
        "outbox": {
            "ready": count(outbox.ready),
            "later": count(outbox.later),
            "set_aside": count(outbox.set_aside),
            "held": count(outbox.held),
            "relays": contents.relays,
        },
        "dead_letters": { "open": count(contents.open), "requested": count(contents.requested) },
        "parked": {
            "lanes": count(contents.lanes.all),
            "waiting": contents.lanes.waiting,
            "full": contents.lanes.full,
            "first": contents.lanes.first.iter().map(lane_object).collect::<Vec<_>>(),
        },
        "attempts": count(contents.attempts),
        "owners": contents.owners.iter().map(|owners| owners_object(now, owners)).collect::<Vec<_>>(),
        "sweeps": contents.sweeps.iter().map(|(group, ago)| json!({ "group": group, "seconds_ago": ago.as_secs() })).collect::<Vec<_>>(),
        "history": now.history.iter().map(finding_object).collect::<Vec<_>>(),
    })
}

/// `left` says whether they are known to be of processes that died; null, when nobody can tell.
fn owners_object(now: &Sample, owners: &Owners) -> Value {
    json!({
        "group": owners.group,
        "partitions": owners.partitions.rows,
        "oldest_seconds": owners.partitions.oldest.map(|oldest| oldest.as_secs()),
        "owner_before_died": owners.deadly,
        "left": rests(now, &owners.group),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32, committed: Option<i64>, end: i64) -> Progress {
        Progress { topic: "orders".into(), partition, committed, start: 2, end, ..Progress::default() }
    }

    #[test]
    fn rates_are_what_was_committed_and_written_between_two_looks() {
        let before = Group {
            name: "g".into(),
            members: Ok(("Stable".into(), 1)),
            progress: Ok(vec![at(0, None, 10), at(1, Some(5), 10)]),
            unread: Vec::new(),
        };
        let now = [at(0, Some(6), 12), at(1, Some(9), 10), at(2, None, 7)];
        let rows = rows(Some(&before), &now, Duration::from_secs(2));
        let row = &rows["orders"];
        assert_eq!(*row, Row { partitions: 3, lag: 12, done: 4.0, coming: 1.0 });
        assert_eq!(row.empty_in(), Some(Duration::from_secs(4)));
        assert_eq!(Row { lag: 5, ..Row::default() }.empty_in(), None);
    }
}
