use super::*;
use crate::context::Isolation;
use crate::fingerprint::Scheme;
use crate::job::{Fates, Grouping, Ordering};
use crate::retry::Backoff;

fn spec(retries: u32) -> Spec {
    Spec {
        name: "charge",
        topic: "orders",
        event: None,
        key_form: "order_id:number".to_owned(),
        scheme: Scheme::new(&[]),
        retries,
        backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(1)),
        timeout: Duration::from_secs(1),
        isolation: Isolation::default(),
        ordering: Ordering::default(),
        grouping: Grouping::default(),
        fates: Fates::default(),
        park: None,
    }
}

fn failed(fault: Fault) -> Outcome {
    Outcome::Failed(Failure { fault, ..Failure::lasting("no such table") })
}

#[test]
fn err_01_no_error_is_passed_over() {
    for retries in 0..4 {
        let spec = spec(retries);
        let mut standing = Standing::default();
        for _ in 0..retries {
            let Verdict::Again(next, wait) = judge(&failed(Fault::Lasting), &spec, standing, 0.5) else {
                panic!("given up before its retries were used up")
            };
            assert!(wait >= Duration::from_millis(100) && wait <= Duration::from_secs(1));
            standing = next;
        }
        let Verdict::Bury(Death { rejection, attempts }) = judge(&failed(Fault::Lasting), &spec, standing, 0.5) else {
            panic!("not given up")
        };
        assert_eq!((rejection.reason, attempts), (Reason::Exhausted, retries + 1));
        assert!(rejection.detail.contains("no such table"), "{}", rejection.detail);
    }
}

#[test]
fn transient_trouble_uses_up_no_attempts() {
    let spec = spec(1);
    let mut standing = Standing::default();
    for _ in 0..1_000 {
        let Verdict::Again(next, _) = judge(&failed(Fault::Transient), &spec, standing, 1.0) else {
            panic!("given up for transient trouble")
        };
        standing = next;
    }
    assert_eq!(standing.failures, 0);
}

#[test]
fn duplicates_settle_and_terminal_errors_give_up() {
    let spec = spec(9);
    for outcome in [Outcome::Done, Outcome::Duplicate, Outcome::Unverified, Outcome::DeadBefore] {
        assert!(matches!(judge(&outcome, &spec, Standing::default(), 0.0), Verdict::Settled));
    }
    let dead = Outcome::Dead(Rejection::new(Reason::Terminal, "no such account"));
    assert!(matches!(judge(&dead, &spec, Standing::default(), 0.0), Verdict::Bury(Death { attempts: 1, .. })));
}

#[test]
fn a_snooze_costs_no_attempt_and_a_discard_settles() {
    let standing = Standing { failures: 2, stumbles: 1 };
    let wait = Duration::from_secs(7);
    let Verdict::Again(next, for_) = judge(&Outcome::Snoozed(wait), &spec(2), standing, 0.5) else {
        panic!("not later")
    };
    assert_eq!((next.failures, for_), (2, wait));
    let discarded = Outcome::Discarded("the account is closed".to_owned());
    assert!(matches!(judge(&discarded, &spec(0), standing, 0.5), Verdict::Settled));
}

#[test]
fn each_rule_has_its_fate() {
    let dead = |reason| Outcome::Dead(Rejection::new(reason, "why"));
    let fates = Fates { conflict: Fate::Skip, tombstone: Fate::Skip, exhausted: Fate::Stop };
    let spec = Spec { fates, ..spec(0) };
    let judged = |outcome: &Outcome| judge(outcome, &spec, Standing::default(), 0.0);
    for reason in [Reason::Conflict, Reason::Tombstone] {
        assert!(matches!(judged(&dead(reason)), Verdict::Settled), "{reason}");
    }
    for reason in [Reason::Decode, Reason::KeyMissing, Reason::Terminal] {
        assert!(matches!(judged(&dead(reason)), Verdict::Stop(_)), "{reason}");
    }
    assert!(matches!(judged(&failed(Fault::Lasting)), Verdict::Stop(_)));
    assert!(matches!(judged(&failed(Fault::Transient)), Verdict::Again(..)), "trouble of the database is no death");
}
