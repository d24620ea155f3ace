//! A bare idempotent producer over records that it has in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotent_jobs::__private::kafka::Record;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use super::record::outgoing;
use crate::Failure;
use crate::options::Measured;
use crate::progress::Progress;

struct Acknowledged {
    progress: Arc<Progress>,
    failed: AtomicU64,
}

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => self.progress.done(1),
            Err(_) => _ = self.failed.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Sends all and waits for the last acknowledgement.
pub fn run(measured: &Measured, progress: &Arc<Progress>) -> Result<(), Failure> {
    let records: Vec<Record> =
        (0..measured.messages).map(|n| Ok(outgoing(n)?.into())).collect::<Result<_, Failure>>()?;
    let context = Acknowledged { progress: Arc::clone(progress), failed: AtomicU64::new(0) };
    let producer: ThreadedProducer<Acknowledged> = ClientConfig::new()
        .set("bootstrap.servers", &measured.brokers)
        .set("enable.idempotence", "true")
        .create_with_context(context)?;
    progress.begin();
    for record in &records {
        send(&producer, &measured.topic, record)?;
    }
    producer.flush(Duration::from_secs(120))?;
    match producer.context().failed.load(Ordering::Relaxed) {
        0 => Ok(()),
        failed => Err(format!("{failed} records were not delivered").into()),
    }
}

fn send(producer: &ThreadedProducer<Acknowledged>, topic: &str, record: &Record) -> Result<(), Failure> {
    loop {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        let headers = record
            .headers
            .iter()
            .fold(headers, |headers, (key, value)| headers.insert(Header { key, value: value.as_ref() }));
        let mut base = BaseRecord::<[u8], [u8]>::to(topic).headers(headers);
        base.key = record.key.as_deref();
        base.payload = record.payload.as_deref();
        match producer.send(base) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
