use proptest::prelude::*;

use super::*;

const HERE: &str = "here";
const STOP: OnMissingKeys = OnMissingKeys::Stop;

fn partition() -> Partition {
    Partition { topic: "orders".into(), number: 3 }
}

fn row(began: i64, offset: i64) -> Watermark {
    Watermark { topic: "orders".into(), partition: 3, topic_id: Some("a".into()), began, offset, purged_to: 0 }
}

/// A log of 0 to 1,000 of topic `a`.
fn facts(committed: Option<(i64, Option<Mark>)>) -> Facts {
    let committed = committed.map(|(offset, mark)| (offset, mark.map(|mark| mark.to_string()).unwrap_or_default()));
    Facts { partition: partition(), committed, start: 0, end: Some(1_000), topic_id: Some("a".into()), latest: false }
}

fn marked(began: i64) -> Option<Mark> {
    Some(Mark { lineage: HERE.into(), began, topic_id: Some("a".into()) })
}

fn of_topic(id: &str, began: i64) -> Option<Mark> {
    marked(began).map(|mark| Mark { topic_id: Some(id.into()), ..mark })
}

fn found(row: Option<&Watermark>, facts: &Facts) -> (i64, i64, Option<Finding>) {
    let decision = decide(row, facts, HERE, STOP).expect("nothing is refused");
    (decision.start, decision.row.offset, decision.finding)
}

#[test]
fn the_first_time_the_committed_offset_is_adopted() {
    assert_eq!(found(None, &facts(Some((70, None)))), (70, 70, None));
    assert_eq!(found(None, &facts(None)), (0, 0, None));
    assert_eq!(found(None, &Facts { latest: true, ..facts(None) }), (1_000, 1_000, None));
}

#[test]
fn db_lost_history_is_read_again_from_the_watermark_on() {
    let lost = Finding::LostHistory { from: 40, to: 70 };
    assert_eq!(found(Some(&row(0, 40)), &facts(Some((70, marked(0))))), (40, 40, Some(lost)));
}

#[test]
fn db_a_copy_older_than_the_first_message_reads_all_that_the_group_read() {
    let lost = Finding::LostHistory { from: 5, to: 70 };
    assert_eq!(found(None, &facts(Some((70, marked(5))))), (5, 5, Some(lost)));
    assert_eq!(found(None, &facts(Some((5, marked(5))))), (5, 5, None));
}

#[test]
fn another_database_is_refused_with_both_ways_out() {
    let mark = marked(5).map(|mark| Mark { lineage: "there".into(), ..mark });
    let facts = facts(Some((70, mark)));
    let refusal = decide(None, &facts, HERE, STOP).unwrap_err();
    for words in ["topic orders, partition 3", "another database", " 70 ", "to 5 ", "to 70"] {
        assert!(refusal.contains(words), "{words}: {refusal}");
    }
    let reported = decide(None, &facts, HERE, OnMissingKeys::Report).unwrap();
    assert_eq!((reported.start, reported.row.offset), (70, 70));
}

#[test]
fn a_database_that_knows_less_than_another_is_refused_from_its_watermark_on() {
    let there = |offset| facts(Some((offset, marked(5).map(|mark| Mark { lineage: "there".into(), ..mark }))));
    let made = row(5, 40);
    let refusal = decide(Some(&made), &there(70), HERE, STOP).unwrap_err();
    for words in ["topic orders, partition 3", "another database", " 70 ", "to 40 ", "to 70"] {
        assert!(refusal.contains(words), "{words}: {refusal}");
    }
    let reported = decide(Some(&made), &there(70), HERE, OnMissingKeys::Report).unwrap();
    assert_eq!((reported.start, reported.row.offset), (70, 70));
    assert_eq!(found(Some(&made), &there(40)), (40, 40, None), "nothing was done there that is not known here");
    // The topic was made anew since, and this database is of the time before.
    let anew = Facts { topic_id: Some("b".into()), ..facts(None) };
    let mark = of_topic("b", 2).map(|mark| Mark { lineage: "there".into(), ..mark });
    let since = Facts { committed: facts(Some((30, mark))).committed, ..anew };
    assert!(decide(Some(&made), &since, HERE, STOP).is_err());
}

#[test]
fn an_offset_of_a_topic_that_is_no_more_says_nothing_of_the_one_made_anew() {
    for lineage in [HERE, "there"] {
        let mark = of_topic("before", 0).map(|mark| Mark { lineage: lineage.into(), ..mark });
        assert_eq!(found(Some(&row(0, 0)), &facts(Some((70, mark)))), (0, 0, None));
    }
}

#[test]
fn behind_a_kill_the_committed_offset_is_below_the_watermark() {
    assert_eq!(found(Some(&row(0, 80)), &facts(Some((70, marked(0))))), (70, 80, None));
}

#[test]
fn a_person_who_moves_the_offset_is_obeyed() {
    assert_eq!(found(Some(&row(0, 80)), &facts(Some((10, None)))), (10, 80, None));
    let moved = Finding::MovedAhead { from: 80, to: 200 };
    assert_eq!(found(Some(&row(0, 80)), &facts(Some((200, None)))), (200, 200, Some(moved)));
}

#[test]
fn ded_an_offset_behind_purged_keys_is_refused_with_the_numbers() {
    let row = Watermark { purged_to: 50, ..row(0, 80) };
    assert_eq!(found(Some(&row), &facts(Some((50, None)))), (50, 80, None));
    let refusal = decide(Some(&row), &facts(Some((49, None))), HERE, STOP).unwrap_err();
    for words in ["topic orders, partition 3", "offset 49", "below 50", "to 50 or above", "on_missing_keys"] {
        assert!(refusal.contains(words), "{words}: {refusal}");
    }
    let reported = decide(Some(&row), &facts(Some((49, None))), HERE, OnMissingKeys::Report).unwrap();
    assert_eq!(reported.start, 49);
}

#[test]
fn ded_an_expired_offset_is_known_from_the_watermark() {
    let missing = Finding::OffsetMissing { watermark: 80 };
    assert_eq!(found(Some(&row(0, 80)), &facts(None)), (80, 80, Some(missing)));
    assert_eq!(found(Some(&row(80, 80)), &facts(None)), (80, 80, None), "nothing was committed yet");
}

#[test]
fn a_topic_made_anew_is_read_from_its_start() {
    let b = Facts { topic_id: Some("b".into()), ..facts(None) };
    let row = Watermark { purged_to: 50, ..row(0, 80) };
    let decision = decide(Some(&row), &b, HERE, STOP).unwrap();
    assert_eq!((decision.start, decision.row.offset, decision.row.purged_to), (0, 0, 0));
    assert_eq!(decision.row.topic_id.as_deref(), Some("b"));
    assert_eq!(decision.finding, Some(Finding::Recreated { watermark: 80, start: 0 }));
    // A worker that had not noticed committed once more.
    let stale = Facts { committed: facts(Some((81, marked(0)))).committed, ..b.clone() };
    assert_eq!(found(Some(&row), &stale).0, 0);
    assert_eq!(found(None, &stale).0, 0);
    // One that had noticed, in a database that was put back.
    let since = Facts { committed: facts(Some((30, of_topic("b", 2)))).committed, ..b.clone() };
    let lost = Finding::LostHistory { from: 2, to: 30 };
    assert_eq!(found(Some(&row), &since), (2, 2, Some(lost)));
    // A person.
    let set = Facts { committed: Some((7, String::new())), ..b };
    assert_eq!(found(Some(&row), &set).0, 7);
}

#[test]
fn without_ids_a_watermark_beyond_the_log_tells_a_topic_made_anew() {
    let short = Facts { topic_id: None, end: Some(79), ..facts(None) };
    let made = Watermark { topic_id: None, purged_to: 50, ..row(0, 80) };
    assert_eq!(found(Some(&made), &short), (0, 0, Some(Finding::Recreated { watermark: 80, start: 0 })));
    assert_eq!(found(Some(&made), &Facts { end: Some(80), ..short }).0, 80);
}

#[test]
fn an_offset_beyond_the_log_counts_for_nothing() {
    let short = Facts { end: Some(79), ..facts(Some((90, marked(0)))) };
    assert_eq!(found(Some(&row(0, 80)), &short).0, 0);
    assert_eq!(found(Some(&row(0, 70)), &short), (70, 70, Some(Finding::OffsetMissing { watermark: 70 })));
}

#[test]
fn a_log_that_lost_its_end_may_be_read_again_only_as_far_as_keys_are_there() {
    let short = Facts { end: Some(79), ..facts(None) };
    assert_eq!(found(Some(&row(0, 80)), &short).0, 0);
    let purged = Watermark { purged_to: 50, ..row(0, 80) };
    assert!(decide(Some(&purged), &short, HERE, STOP).is_err());
}

#[test]
fn an_id_that_could_not_be_asked_for_is_kept() {
    let facts = Facts { topic_id: None, ..facts(Some((70, marked(0)))) };
    assert_eq!(decide(Some(&row(0, 80)), &facts, HERE, STOP).unwrap().row.topic_id.as_deref(), Some("a"));
}

proptest! {
    /// What a worker committed is never taken for done by a database that does not know it, and
    /// no start lies above what the database knows unless a person set it there.
    #[test]
    fn nothing_is_passed_over_that_the_database_does_not_know(
        began in 0i64..50, done in 0i64..50, committed in prop::option::of(0i64..120),
        by_worker in any::<bool>(), there in any::<bool>(),
    ) {
        let made = row(began, began + done);
        let facts = facts(committed.map(|offset| (offset, if by_worker { marked(began) } else { None })));
        let decision = decide(there.then_some(&made), &facts, HERE, STOP).unwrap();
        if by_worker || committed.is_none() {
            let known = if there { made.offset } else if committed.is_some() { began } else { facts.start };
            prop_assert!(decision.start <= known, "{decision:?}");
            prop_assert!(decision.row.offset <= known.max(decision.start), "{decision:?}");
        } else {
            prop_assert_eq!(Some(decision.start), committed);
        }
        prop_assert!(decision.start <= decision.row.offset);
    }
}
