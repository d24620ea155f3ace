use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotent_jobs::__private::kafka::{Partition, Properties, Stopped};

use crate::recorder::{Place, Recorder, place};

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
    let stop = Arc::new(AtomicBool::new(false));
    let first = place.join(&properties, &staying);
    let worker = work(&staying, &stop);
    let mut handled = BTreeSet::new();
    let rounds = 5;
    for round in 0..rounds {
        place.send(&producer, round * 200, (round + 1) * 200).await;
        let coming = Recorder::patient(10);
        let guest = place.join(&properties, &coming);
        let helper = work(&coming, &stop);
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
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
    stop.store(true, Ordering::SeqCst);
    worker();
    staying.read(|log| assert_eq!((log.strays, log.failed.len()), (0, 0), "{:?}", log.failed));
    assert_eq!(place.offsets(&properties, PARTITIONS).values().sum::<i64>(), i64::try_from(total).unwrap());
}

/// Handles what comes, one message of each partition at a time, on a thread of its own.
fn work(recorder: &Arc<Recorder>, stop: &Arc<AtomicBool>) -> impl FnOnce() + use<> {
    let (recorder, all) = (recorder.clone(), stop.clone());
    let own = Arc::new(AtomicBool::new(false));
    let ended = own.clone();
    let waker = recorder.clone();
    let thread = std::thread::spawn(move || {
        while !own.load(Ordering::SeqCst) && !all.load(Ordering::SeqCst) {
            if recorder.handle(1) == 0 {
                std::thread::yield_now();
            }
        }
    });
    move || {
        ended.store(true, Ordering::SeqCst);
        waker.read(|_| ());
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
        staying.wait("full and paused", |log| log.lanes.len() == 2 && log.lanes.values().any(|lane| lane.queue.len() >= 4));
        let before = staying.read(|log| log.assignments);
        let coming = Recorder::patient(4);
        let guest = place.join(&properties, &coming);
        coming.wait("a partition", |log| !log.lanes.is_empty());
        assert_eq!(guest.stop(BUDGET).await, Stopped::Clean);
        staying.wait("both partitions again", |log| log.lanes.len() == 2 && log.assignments > before);
        handled += 60;
        loop {
            staying.wait("the queue", |log| distinct(&log.handled) == handled || log.lanes.values().any(|lane| !lane.queue.is_empty()));
            if staying.handle(3) == 0 && staying.read(|log| distinct(&log.handled)) == handled {
                break;
            }
        }
    }
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
    assert_eq!(place.offsets(&properties, 2).values().sum::<i64>(), 480);
}

fn distinct(handled: &[(Partition, i64)]) -> usize {
    handled.iter().collect::<BTreeSet<_>>().len()
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
    let refused = idempotent_jobs::__private::kafka::Consumer::start(&both, &[place.topic.clone()], next);
    assert!(refused.is_err_and(|problems| problems[0].contains("protocol type")));
    assert_eq!(first.stop(BUDGET).await, Stopped::Clean);
}
