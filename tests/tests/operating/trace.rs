//! The trace of a message that died.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tests::PATIENCE;
use tests::broker::{Broker, Wire};
use tests::database::Kind;
use tests::outbox::read;
use tests::world::World;

use super::jobs::{Mended, OPERATED, TOLD, work};

/// HTTP, outbox, relay and consumer are one trace already: so are the dead letter and what its redrive enqueues.
pub fn obs_04_a_redrive_goes_on_with_the_trace_of_its_message(kind: Kind) {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let topics = [OPERATED, TOLD];
    let broker = if kind == Kind::Sqlite { Broker::embedded(&topics) } else { Broker::real(&topics) };
    let world = World::on(broker, kind, OPERATED);
    let from = world.broker.ends(TOLD.0, TOLD.1);
    let payload = json!({ "id": 1, "fails": true, "tells": true }).to_string().into_bytes();
    let headers = vec![("traceparent".to_owned(), TRACE.as_bytes().to_vec())];
    world.put(&[Wire { payload: Some(payload), headers, ..work(1, true) }]);
    let (job, mended) = (format!("operated_{kind}"), Mended::default());
    let worker = world.work_as([], |builder| builder.jobs([job]).state(mended.clone()));
    world.settled(PATIENCE);
    assert_eq!(world.letter().message.headers.get("traceparent"), Some(TRACE.as_bytes()));
    mended.0.store(true, Ordering::SeqCst);
    world.tool(0, &["dead-letters", "redrive", "--all", "--wait=60s"]);
    let deadline = Instant::now() + PATIENCE;
    let ends = loop {
        let ends = world.broker.ends(TOLD.0, TOLD.1);
        if ends != from {
            break ends;
        }
        assert!(Instant::now() < deadline, "nothing was sent:\n{}", world.events.seen().describe());
        world.events.wait_briefly(Duration::from_millis(20), |_| false);
    };
    worker.stop().expect("a clean stop");
    let told = read(world.broker.servers(), TOLD.0, &from, &ends);
    let trace = told[0].headers.iter().find(|(name, _)| name == "traceparent").and_then(|(_, value)| value.as_deref());
    assert_eq!((told.len(), trace), (1, Some(TRACE.as_bytes())));
}
