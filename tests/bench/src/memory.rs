//! Whether memory grows with the backlog: the peak of a process over one, and over two of them.

use crate::Failure;
use crate::contestant::{Contestant, Place, Way};
use crate::field::PARALLEL;
use crate::kafka::Kafka;
use crate::load::Load;
use crate::postgres::Postgres;
use crate::report::Extras;

const TOPIC: &str = "bench-backlog";

/// Fills a topic, works it off, fills it up to twice as much, and works it off anew.
pub async fn measure(kafka: &Kafka, postgres: &Postgres, backlog: u64) -> Result<Extras, Failure> {
    let mut extras = Extras::new();
    let mut there = 0;
    for (name, messages) in [("rss_mib_1m", backlog), ("rss_mib_2m", 2 * backlog)] {
        let load = Load { topic: TOPIC, messages };
        if there == 0 {
            kafka.make(load).await?;
        }
        kafka.fill(load, there)?;
        there = messages;
        let mib = peak(kafka, postgres, name, load).await?;
        eprintln!("{name}: {mib:.1} MiB over {messages} messages");
        extras.insert(name, mib);
    }
    Ok(extras)
}

async fn peak(kafka: &Kafka, postgres: &Postgres, name: &'static str, load: Load) -> Result<f64, Failure> {
    let place = Place::Postgres(postgres.clone());
    let ours = Contestant { name, way: Way::Ours(JOB), load, place, connections: PARALLEL, again: false };
    ours.place.reset().await?;
    let told = ours.told(kafka, &["worker", JOB], "bench")?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let mib = told.rss_kib as f64 / 1024.0;
    Ok(mib)
}

const JOB: &str = "charge_backlog";
