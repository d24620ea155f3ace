use futures_util::FutureExt;
use serde::Deserialize;

use super::*;
use crate::error::JobError;
use crate::extract::{ExtractBatch, Meta, State};
use crate::message::{Coordinates, Headers};

#[derive(Default)]
struct Seen(Vec<String>);

impl Handle for Seen {
    const NAME: &'static str = "Seen";
    const DATABASE: &'static str = "none";
}

#[derive(Deserialize)]
struct Charge {
    order: u64,
}

fn many<'a>(seen: &'a mut Seen, charges: Vec<Charge>, contexts: &'a [Context]) -> Running<'a> {
    Box::pin(async move {
        let metas = <Vec<Meta>>::extract_batch(contexts)?;
        let State(topic) = State::<&str>::extract_batch(contexts)?;
        let line = |(charge, meta): (&Charge, &Meta)| format!("{}@{topic}/{}", charge.order, meta.offset);
        seen.0.extend(charges.iter().zip(&metas).map(line));
        seen.0.push("end".to_owned());
        Ok(())
    })
}

fn job() -> Arc<dyn Job<Seen>> {
    Declaration::batch("charge", "orders", 100, many).key(Part::field("order", |charge: &Charge| &charge.order)).erase()
}

fn message(order: i64) -> (Payload, Context) {
    let message = Message {
        coordinates: Coordinates { topic: "orders".into(), partition: 0, offset: order * 10 },
        key: None,
        payload: Some(format!(r#"{{"order":{order}}}"#).into_bytes()),
        headers: Headers::default(),
        timestamp: None,
    };
    let Ok(Prepared { key, payload, .. }) = job().prepare(&message) else { panic!("the message is readable") };
    let mut states = States::default();
    states.insert("orders");
    (payload, Context { job: "charge", message: Arc::new(message), key, attempt: 1, states: Arc::new(states) })
}

fn done(running: impl Future<Output = JobResult>) -> Result<(), JobError> {
    running.now_or_never().expect("this handler waits for nothing")
}

#[test]
fn a_batch_job_is_given_all_messages_with_their_contexts_or_one_alone() {
    let job = job();
    assert_eq!(job.spec().grouping, Grouping::Batch(100));

    let mut seen = Seen::default();
    let (payloads, contexts) = [3, 1, 2].map(message).into_iter().unzip();
    done(job.run_batch(&mut seen, payloads, contexts)).expect("all at once");
    let (payload, context) = message(4);
    done(job.run(&mut seen, payload, &context)).expect("one alone");
    assert_eq!(seen.0, ["3@orders/30", "1@orders/10", "2@orders/20", "end", "4@orders/40", "end"]);
}

#[test]
fn what_a_batch_misses_is_said_as_of_one() {
    let states = States::default();
    let one = <State<u8> as crate::Extract>::check(&states);
    assert!(one.is_err());
    assert_eq!(<State<u8> as ExtractBatch>::check(&states), one);
    assert_eq!(<Vec<State<u8>> as ExtractBatch>::check(&states), one);
    assert_eq!(<Vec<Meta> as ExtractBatch>::check(&states), Ok(()));
}
