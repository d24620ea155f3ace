use super::*;
use crate::context::Isolation;
use crate::fingerprint::Scheme;
use crate::job::{Grouping, Ordering};
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
        let Verdict::GiveUp(rejection) = judge(&failed(Fault::Lasting), &spec, standing, 0.5) else {
            panic!("not given up")
        };
        assert_eq!(rejection.reason, Reason::Exhausted);
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
    for outcome in [Outcome::Done, Outcome::Duplicate, Outcome::Unverified] {
        assert!(matches!(judge(&outcome, &spec, Standing::default(), 0.0), Verdict::Settled));
    }
    let dead = Outcome::Dead(Rejection::new(Reason::Terminal, "no such account"));
    assert!(matches!(judge(&dead, &spec, Standing::default(), 0.0), Verdict::GiveUp(_)));
}
