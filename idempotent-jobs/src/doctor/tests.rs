use std::collections::BTreeMap;
use std::time::SystemTime;

use super::*;
use crate::kafka::Cluster;
use crate::kafka::{Group, Progress, Replicas, Topic, Unread};
use crate::store::{Count, Database, Lanes, Marks, ParkedLane, RecordedJob, Tables};

fn database() -> Database {
    let settings = [
        ("default_transaction_isolation", "read committed"),
        ("synchronous_commit", "on"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("default_transaction_read_only", "off"),
        ("in_recovery", "off"),
    ];
    let job = RecordedJob { name: "charge".into(), group: "g".into(), topic: "orders".into() };
    Database {
        place: "PostgreSQL at here".into(),
        version: "18.1".into(),
        too_old: false,
        settings: settings.map(|(name, value)| (name, value.to_owned())).into(),
        pooled: false,
        skew: Some(3),
        tables: Tables::Current(3),
        contents: Some(Contents { jobs: vec![job], relays: 1, ..Contents::default() }),
    }
}

fn contents(database: &mut Database) -> &mut Contents {
    database.contents.as_mut().expect("it has contents")
}

/// One lane of which is known when it got full, and more.
fn lanes(full_since: Option<SystemTime>, rows: u64) -> Lanes {
    let since = SystemTime::UNIX_EPOCH;
    let (job, group, topic) = ("charge".into(), "g".into(), "orders".into());
    let lane = ParkedLane {
        job,
        group,
        topic,
        partition: 0,
        head: 17,
        head_requested: false,
        key: None,
        waiting: 5,
        since,
        full_since,
    };
    Lanes { all: Count { rows, oldest: None }, waiting: 9, full: full_since.map_or(0, |_| rows), first: vec![lane] }
}

/// Its head may be a message that nothing is wrong with, whose turn it is.
#[test]
fn a_lane_whose_head_is_to_be_run_asks_for_no_decision() {
    let mut report = Report::default();
    let mut harmed = database();
    contents(&mut harmed).lanes = lanes(Some(SystemTime::UNIX_EPOCH), 1);
    contents(&mut harmed).lanes.first[0].head_requested = true;
    database::judge(&harmed, &mut report);
    let found: Vec<_> = report.0.iter().filter(|it| it.check == "dead_letters.parked").collect();
    assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
    assert!(!format!("{:?}", found[0]).contains("skip"), "{found:?}");
}

#[test]
fn a_lane_that_waits_names_the_letter_and_the_command() {
    let mut report = Report::default();
    let mut harmed = database();
    contents(&mut harmed).lanes = lanes(None, 3);
    database::judge(&harmed, &mut report);
    let found: Vec<_> = report.0.iter().filter(|it| it.check == "dead_letters.parked").collect();
    assert!(found[0].what.contains("5 message(s)") && found[0].place.contains("job `charge`"), "{found:?}");
    assert!(found[0].advice.contains("`idempotent-jobs dead-letters redrive 17`"), "{found:?}");
    assert!(found[1].what.contains("2 more lane(s)"), "{found:?}");
}

/// The checks that found fault with it.
fn faults(database: &Database) -> Vec<(&'static str, Severity)> {
    let mut report = Report::default();
    database::judge(database, &mut report);
    wrong(report)
}

fn wrong(report: Report) -> Vec<(&'static str, Severity)> {
    let wrong: Vec<_> = report.0.into_iter().filter(|finding| finding.severity > Severity::Ok).collect();
    assert!(wrong.iter().all(|it| !it.what.is_empty() && !it.place.is_empty()), "{wrong:?}");
    wrong.into_iter().map(|finding| (finding.check, finding.severity)).collect()
}

#[test]
fn a_database_as_it_should_be_has_no_fault() {
    assert_eq!(faults(&database()), []);
}

#[test]
fn each_fault_of_a_database_has_its_check() {
    use Severity::{Error, Warning};
    let old = Count { rows: 7, oldest: Some(Duration::from_secs(3_600)) };
    let set = |name: &'static str, value: &'static str| {
        move |it: &mut Database| {
            it.settings.iter_mut().filter(|(known, _)| *known == name).for_each(|s| s.1 = value.into())
        }
    };
    type Harm = Box<dyn Fn(&mut Database)>;
    let cases: Vec<(Harm, &str, Severity)> = vec![
        (Box::new(|it| it.pooled = true), "database.pooled", Error),
        (Box::new(|it| it.too_old = true), "database.version", Error),
        (Box::new(set("in_recovery", "on")), "database.read_only", Error),
        (Box::new(set("default_transaction_read_only", "on")), "database.read_only", Warning),
        (Box::new(set("fsync", "off")), "database.durability", Error),
        (Box::new(set("full_page_writes", "off")), "database.durability", Error),
        (Box::new(set("synchronous_commit", "off")), "database.durability", Warning),
        (Box::new(set("default_transaction_isolation", "serializable")), "database.isolation", Warning),
        (Box::new(|it| it.skew = Some(-60_000)), "database.clock", Warning),
        (Box::new(|it| it.tables = Tables::Absent), "tables.version", Warning),
        (Box::new(|it| it.tables = Tables::Behind(vec![3])), "tables.version", Warning),
        (Box::new(|it| it.tables = Tables::Foreign("newer".into())), "tables.version", Error),
        (Box::new(|it| it.tables = Tables::Refused("denied".into())), "tables.version", Error),
        (Box::new(|it| contents(it).unsound = Some("partitioned".into())), "tables.sound", Error),
        (Box::new(|it| contents(it).indexes = vec!["outbox_ready".into()]), "tables.indexes", Error),
        (Box::new(|it| contents(it).jobs.clear()), "jobs", Warning),
        (Box::new(move |it| contents(it).outbox.ready = old), "outbox.backlog", Warning),
        (Box::new(move |it| (contents(it).outbox.ready, contents(it).relays) = (old, 0)), "outbox.backlog", Error),
        (Box::new(move |it| contents(it).outbox.set_aside = old), "outbox.set_aside", Warning),
        (Box::new(move |it| contents(it).open = old), "dead_letters.open", Warning),
        (Box::new(move |it| contents(it).requested = old), "dead_letters.requested", Warning),
        (Box::new(|it| contents(it).lanes = lanes(None, 1)), "dead_letters.parked", Warning),
        (Box::new(|it| contents(it).lanes = lanes(Some(SystemTime::UNIX_EPOCH), 1)), "dead_letters.parked", Error),
    ];
    for (harm, check, severity) in cases {
        let mut harmed = database();
        harm(&mut harmed);
        assert_eq!(faults(&harmed), [(check, severity)]);
    }
}

fn topic() -> Topic {
    let settings = [("min.insync.replicas", "2"), ("cleanup.policy", "delete"), ("retention.ms", "604800000")];
    Topic {
        name: "orders".into(),
        id: None,
        problem: None,
        partitions: vec![Replicas { leader: Some(1), all: 3, in_sync: 3 }; 2],
        settings: Ok(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        ahead: 0,
    }
}

fn group() -> Group {
    let progress = Progress { topic: "orders".into(), partition: 0, committed: Some(5), end: 9, ..Progress::default() };
    Group { name: "g".into(), members: Ok(("Stable".into(), 2)), progress: Ok(vec![progress]), unread: Vec::new() }
}

fn unread() -> Unread {
    Unread { topic: "orders".into(), partition: 1, why: "no broker leads it".into() }
}

#[test]
fn a_history_that_was_not_all_looked_at_is_not_called_well() {
    let marks = Marks { lineage: "here".into(), rows: Vec::new() };
    let told = |group| history::judge(&Cluster { brokers: 3, topics: vec![topic()], groups: vec![group] }, &marks);
    let unmarked = Ok(vec![Progress { topic: "orders".into(), end: 9, ..Progress::default() }]);
    let whole = Group { progress: unmarked, ..group() };
    assert_eq!(told(whole.clone()).iter().map(|it| it.check).collect::<Vec<_>>(), ["group.history"]);
    assert_eq!(told(Group { unread: vec![unread()], ..whole }), []);
}

fn faults_of(topic: Topic, group: Group) -> Vec<(&'static str, Severity)> {
    let mut report = Report::default();
    let cluster = Cluster { brokers: 3, topics: vec![topic], groups: vec![group] };
    brokers::judge(&cluster, "brokers here", &mut report);
    wrong(report)
}

#[test]
fn each_fault_of_a_topic_has_its_check() {
    use Severity::{Error, Warning};
    let setting = |it: &mut Topic, name: &str, value: &str| {
        it.settings
            .as_mut()
            .map(|settings: &mut BTreeMap<_, _>| settings.insert(name.into(), value.into()))
            .map(drop)
            .unwrap();
    };
    type Harm<'a> = Box<dyn Fn(&mut Topic) + 'a>;
    let cases: Vec<(Harm<'_>, &str, Severity)> = vec![
        (Box::new(|it| it.problem = Some("not there".into())), "topic.exists", Error),
        (Box::new(|it| it.partitions[1].leader = None), "topic.partitions", Error),
        (Box::new(|it| it.partitions[1].in_sync = 1), "topic.replicas", Error),
        (Box::new(|it| it.partitions[1].all = 1), "topic.replicas", Warning),
        (Box::new(|it| setting(it, "min.insync.replicas", "1")), "topic.replicas", Warning),
        (Box::new(|it| setting(it, "cleanup.policy", "compact,delete")), "topic.cleanup", Warning),
        (Box::new(|it| it.settings = Err("denied".into())), "topic.settings", Warning),
        (Box::new(|it| it.ahead = 1), "topic.clock", Warning),
    ];
    assert_eq!(faults_of(topic(), group()), []);
    for (harm, check, severity) in cases {
        let mut harmed = topic();
        harm(&mut harmed);
        assert_eq!(faults_of(harmed, group()), [(check, severity)]);
    }
}

#[test]
fn each_fault_of_a_group_has_its_check() {
    use Severity::{Error, Warning};
    let at = |committed, start, end| {
        Ok(vec![Progress { topic: "orders".into(), partition: 0, committed, start, end, ..Progress::default() }])
    };
    let cases = [
        (Group { members: Ok(("Empty".into(), 0)), ..group() }, "group.members", Warning),
        (Group { members: Ok(("PreparingRebalance".into(), 2)), ..group() }, "group.members", Warning),
        (Group { members: Err("denied".into()), ..group() }, "group.members", Warning),
        (Group { progress: Err("denied".into()), ..group() }, "group.progress", Error),
        (Group { unread: vec![unread()], ..group() }, "group.progress", Error),
        (Group { progress: at(Some(10), 0, 9), ..group() }, "group.progress", Error),
        (Group { progress: at(Some(3), 5, 9), ..group() }, "group.progress", Error),
        (Group { progress: at(None, 0, 20_000), ..group() }, "group.progress", Warning),
    ];
    for (group, check, severity) in cases {
        assert_eq!(faults_of(topic(), group), [(check, severity)]);
    }
}

#[test]
fn a_group_whose_name_no_job_has_is_told_of() {
    let mut report = Report::default();
    let nobody = Group { progress: Ok(Vec::new()), ..group() };
    brokers::judge_names(&Cluster { brokers: 3, topics: Vec::new(), groups: vec![nobody] }, &mut report);
    assert_eq!(wrong(report), [("group.name", Severity::Warning)]);
    let mut report = Report::default();
    brokers::judge_names(&Cluster { brokers: 3, topics: vec![topic()], groups: vec![group()] }, &mut report);
    assert_eq!(wrong(report), []);
}

#[test]
fn a_lane_that_nothing_waits_in_is_no_fault() {
    let mut harmed = database();
    contents(&mut harmed).lanes = Lanes { waiting: 0, ..lanes(None, 3) };
    contents(&mut harmed).lanes.first[0].waiting = 0;
    assert_eq!(faults(&harmed), []);
}
