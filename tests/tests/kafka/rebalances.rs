use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use idempotent_jobs::__private::kafka::{Partition, Properties, Settings, Stopped};

use crate::recorder::{Place, Recorder, embedded, place};

const BUDGET: Duration = Duration::from_secs(5);
const PARTITIONS: i32 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn con_02_nothing_unsettled_is_committed_while_a_member_comes_and_goes_eager() {
    comes_and_goes(Place::member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn con_02_con_16_nothing_unsettled_is_committed_while_a_member_comes_and_goes_cooperative() {
    comes_and_goes(|place| place.member().set("partition.assignment.strategy", "cooperative-sticky")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn con_02_nothing_unsettled_is_committed_while_a_member_comes_and_goes_consumer_protocol() {
    comes_and_goes(Place::modern_member).await;
}

/// CON-15: the same on a runtime of one thread that the test itself occupies.
#[tokio::test(flavor = "current_thread")]
async fn con_15_a_rebalance_needs_no_runtime() {
    comes_and_goes(Place::member).await;
}

/// One member stays, another joins and leaves; each handles one message at a time from queues
/// that fill and pause. In the end each message was handled by somebody.
async fn comes_and_goes(member: impl Fn(&Place) -> Properties) {
    let place = place(PARTITIONS).await;
    let producer = place.producer();
    let properties = member(&place);
    let staying = Recorder::patient(10);
    let first = place.join(&properties, &staying);
    let worker = work(&staying);
    let mut handled = BTreeSet::new();
    let rounds = 5;
    for round in 0..rounds {
        place.send(&producer, round * 200, (round + 1) * 200).await;
        let coming = Recorder::patient(10);
        let guest = place.join(&properties, &coming);
        let helper = work(&coming);
        coming.wait("work for the guest", |log| log.assignments > 0 && !log.lanes.is_empty());
        assert_eq!(guest.stop(BUDGET).await, Stopped::Clean);
        coming.read(|log| {
            assert_eq!((log.strays, log.failed.len()), (0, 0), "{:?}", log.failed);
            handled.extend(log.handled.drain(..));
        });
        helper();
        let wanted = usize::try_from(PARTITIONS).unwrap();
        staying.wait("all partitions back", |log| log.lanes.len() == wanted);
    }
    let total = rounds * 200;
    staying.wait("the rest", |log| handled.iter().chain(&log.handled).collect::<BTreeSet<_>>().len() == total);
    place.wait_for_offsets(&properties, PARTITIONS, total);
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
    worker();
    staying.read(|log| assert_eq!((log.strays, log.failed.len()), (0, 0), "{:?}", log.failed));
}

/// Handles what comes, one message of each partition at a time, on a thread of its own, until
/// the returned closure is called.
fn work(recorder: &Arc<Recorder>) -> impl FnOnce() + use<> {
    let (working, recorder) = (recorder.clone(), recorder.clone());
    let thread = std::thread::spawn(move || working.work());
    move || {
        recorder.read(|log| log.resting = true);
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn con_13_a_partition_paused_before_a_rebalance_is_read_after_it() {
    let place = place(2).await;
    let producer = place.producer();
    let properties = place.member();
    let staying = Recorder::patient(4);
    let first = place.join(&properties, &staying);
    let mut handled = 0;
    for round in 0..8 {
        place.send(&producer, round * 60, (round + 1) * 60).await;
        staying.wait("full and paused", |log| {
            log.lanes.len() == 2 && log.lanes.values().any(|lane| lane.queue.len() >= 4)
        });
        // Without a pause everything would have come by now.
        staying.wait_for_polls();
        let sent = (round + 1) * 60;
        let before = staying.read(|log| {
            let accepted = log.accepted.iter().map(|message| &message.coordinates);
            let accepted: BTreeSet<_> = accepted.map(|at| (at.partition, at.offset)).collect();
            assert!(accepted.len() < sent, "paused, {} of {sent} have come", accepted.len());
            log.assignments
        });
        let coming = Recorder::patient(4);
        let guest = place.join(&properties, &coming);
        coming.wait("a partition", |log| !log.lanes.is_empty());
        assert_eq!(guest.stop(BUDGET).await, Stopped::Clean);
        staying.wait("both partitions again", |log| log.lanes.len() == 2 && log.assignments > before);
        handled += 60;
        loop {
            staying.wait("the queue", |log| {
                distinct(&log.handled) == handled || log.lanes.values().any(|lane| !lane.queue.is_empty())
            });
            if staying.handle(3) == 0 && staying.read(|log| distinct(&log.handled)) == handled {
                break;
            }
        }
    }
    let worker = work(&staying);
    place.wait_for_offsets(&properties, 2, 480);
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
    worker();
}

fn distinct(handled: &[(Partition, i64)]) -> usize {
    handled.iter().collect::<BTreeSet<_>>().len()
}

#[tokio::test]
async fn con_09_a_revoke_waits_for_running_jobs_longer_than_the_session_and_commits_them_classic() {
    finishes_late(Place::member).await;
}

#[tokio::test]
async fn con_09_a_revoke_waits_for_running_jobs_longer_than_the_session_and_commits_them_consumer_protocol() {
    finishes_late(Place::modern_member).await;
}

/// A job finishes when the budget ends, long after a session without heartbeats would have.
/// The embedded broker does not wait for members as Kafka does: this is for a real one.
async fn finishes_late(member: impl Fn(&Place) -> Properties) {
    let place = place(2).await;
    if !place.is_real() {
        return;
    }
    let producer = place.producer();
    let properties = member(&place);
    let (busy, next) = (Recorder::patient(100), Recorder::patient(100));
    let mut settings = Settings::default();
    settings.revoke_budget = Duration::from_secs(9);
    let first = place.join_with(settings, &properties, &busy);
    place.send(&producer, 0, 10).await;
    busy.wait("the messages", |log| log.accepted.len() == 10);
    busy.read(|log| log.finishes_late = true);
    let guest = place.join(&properties, &next);
    busy.wait("the end of the budget", |log| log.revocations == 1 && log.handled.len() == 10);
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
    next.wait("both partitions", |log| log.lanes.len() == 2);
    busy.read(|log| assert_eq!((log.losses, log.handled.len(), log.accepted.len()), (0, 10, 10)));
    guest.stop(BUDGET).await;
    next.read(|log| assert!(log.accepted.is_empty(), "what was settled in time is not delivered again"));
    assert_eq!(place.offsets(&properties, 2).values().sum::<i64>(), 10);
}

#[tokio::test]
async fn con_12_a_member_that_did_not_poll_loses_its_partitions_and_joins_again() {
    let place = embedded(1);
    let producer = place.producer();
    let properties = place.member().set("max.poll.interval.ms", "1500");
    let stuck = Recorder::prompt();
    stuck.read(|log| log.stuck = true);
    let first = place.join(&properties, &stuck);
    place.send(&producer, 0, 1).await;
    stuck.wait("the partition", |log| log.assignments == 1);
    let next = Recorder::prompt();
    let guest = place.join(&properties, &next);
    next.wait("the stuck member's message", |log| log.handled.len() == 1);
    stuck.read(|log| log.stuck = false);
    // librdkafka calls it lost only if no rebalance was under way before.
    stuck.wait("the loss", |log| log.losses + log.revocations >= 1);
    assert_eq!(guest.stop(BUDGET).await, Stopped::Clean);
    place.send(&producer, 1, 2).await;
    stuck.wait("the next message", |log| log.handled.iter().any(|(_, offset)| *offset == 1));
    stuck.read(|log| assert!(log.failed.is_empty(), "{:?}", log.failed));
    first.stop(BUDGET).await;
}

#[tokio::test]
async fn con_16_a_group_changes_from_range_to_cooperative_one_member_at_a_time() {
    let place = place(2).await;
    let producer = place.producer();
    let plain = place.member().set("partition.assignment.strategy", "range");
    let both = place.member().set("partition.assignment.strategy", "range,cooperative-sticky");
    let recorder = Recorder::prompt();
    let first = place.join(&plain, &recorder);
    recorder.wait("both partitions", |log| log.lanes.len() == 2);
    place.send(&producer, 0, 20).await;
    recorder.wait("all", |log| log.handled.len() == 20);
    // librdkafka refuses to mix protocols in one list: the change needs all members to stop.
    let next = Recorder::prompt();
    let refused = idempotent_jobs::__private::kafka::Consumer::start(&both, std::slice::from_ref(&place.topic), next);
    assert!(refused.is_err_and(|problems| problems[0].contains("protocol type")));
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
}
