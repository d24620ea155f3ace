use super::*;
use crate::kafka::Topic;

const LINEAGE: &str = "here";

/// A group without members that committed so much, beside that mark, and what its database has.
fn judged(members: usize, committed: Option<i64>, mark: &str, row: Option<(i64, i64, i64)>) -> Vec<(Severity, String)> {
    let progress = Progress { topic: "orders".into(), committed, mark: mark.into(), end: 100, ..Progress::default() };
    let group = Group {
        name: "g".into(),
        members: Ok(("-".into(), members)),
        progress: Ok(vec![progress]),
        unread: Vec::new(),
    };
    let topic = Topic { name: "orders".into(), id: Some("T".into()), ..Topic::default() };
    let rows = row.map(|(began, offset, purged_to)| {
        let topic_id = Some("T".to_owned());
        ("g".to_owned(), Watermark { topic: "orders".into(), partition: 0, topic_id, began, offset, purged_to })
    });
    let marks = Marks { lineage: LINEAGE.into(), rows: rows.into_iter().collect() };
    let found = judge(&Cluster { brokers: 1, topics: vec![topic], groups: vec![group] }, &marks);
    assert!(found.iter().all(|it| it.severity == Severity::Ok || !it.advice.is_empty()), "{found:?}");
    let word = |what: &str| what.rsplit_once('(').map_or("", |(_, word)| word.trim_end_matches(')')).to_owned();
    found.into_iter().filter(|it| it.severity > Severity::Ok).map(|it| (it.severity, word(&it.what))).collect()
}

fn one(severity: Severity, word: &str) -> Vec<(Severity, String)> {
    vec![(severity, word.to_owned())]
}

#[test]
fn each_finding_of_an_assignment_is_one_of_the_doctor() {
    use Severity::{Error, Warning};
    let ours = "idempotent-jobs 1 here 0 T";
    assert_eq!(judged(0, Some(40), ours, Some((0, 40, 0))), []);
    assert_eq!(judged(0, Some(40), ours, Some((0, 50, 0))), [], "the database is ahead as it should be");
    assert_eq!(judged(0, None, "", None), [], "nothing was ever read");
    assert_eq!(judged(0, Some(40), ours, Some((0, 30, 0))), one(Error, "lost_history"));
    assert_eq!(judged(0, Some(40), ours, None), one(Error, "lost_history"));
    assert_eq!(judged(0, None, "", Some((0, 30, 0))), one(Warning, "offset_missing"));
    assert_eq!(judged(0, Some(40), "", Some((0, 30, 0))), one(Warning, "moved_ahead"));
    assert_eq!(judged(0, Some(10), "", Some((0, 30, 20))), one(Error, "keys_purged"));
    assert_eq!(judged(0, Some(40), "idempotent-jobs 1 there 0 T", None), one(Error, "other_database"));
    assert_eq!(judged(0, Some(40), "idempotent-jobs 1 here 0 OLD", None), one(Error, "topic_recreated"));
}

#[test]
fn what_may_pass_while_a_worker_works_is_not_told() {
    let ours = "idempotent-jobs 1 here 0 T";
    assert_eq!(judged(1, Some(40), ours, Some((0, 30, 0))), one(Severity::Error, "lost_history"));
    assert_eq!(judged(1, None, "", Some((0, 30, 0))), [], "its first commit is on its way");
    assert_eq!(judged(1, Some(10), ours, Some((0, 30, 20))), [], "its keys were purged after the brokers were asked");
}
