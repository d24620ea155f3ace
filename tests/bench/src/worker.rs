//! A process of ours over one job.

use std::sync::Arc;

use idempotent_jobs::__private::{Point, Probe};
use idempotent_jobs::{Coordinates, Worker};

use crate::Failure;
use crate::options::Measured;
use crate::progress::Progress;

struct Counting(Arc<Progress>);

impl Probe for Counting {
    fn reached(&self, point: Point, _: &Coordinates) {
        match point {
            Point::Claimed => self.0.begin(),
            Point::Committed => self.0.done(1),
            Point::Skipped => self.0.duplicate(),
            // Whatever this run measures, it is not what it is to measure.
            Point::Buried => panic!("a message of the benchmark cannot be processed: see its dead letter"),
            Point::Accepted | Point::Handled | Point::Recorded | Point::OffsetCommitted => {}
        }
    }
}

/// Runs until all messages are settled, and shuts down as on SIGTERM: offsets are committed.
pub async fn run(measured: &Measured, job: &str, progress: &Arc<Progress>) -> Result<(), Failure> {
    let all = Arc::clone(progress);
    Worker::builder()
        .database_url(&measured.database)
        .brokers(&measured.brokers)
        .group_id(&measured.group)
        .concurrency(measured.connections)
        .jobs([job])
        .examine(false)
        .probe(Counting(Arc::clone(progress)))
        .shutdown_on(async move { all.all_done().await })
        .run()
        .await?;
    Ok(())
}
