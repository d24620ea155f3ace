//! Partitions that are added to a topic while it is read, on real Kafka and PostgreSQL: CON-04.

use idempotent_jobs::PgTx;
use idempotent_jobs::prelude::*;
use serde::Deserialize;
use serde_json::json;
use tests::PATIENCE;
use tests::broker::{Broker, Wire};
use tests::database::{Kind, effect_pg};
use tests::world::World;

const GROWN: &str = "grown";

#[derive(Debug, Deserialize)]
struct Work {
    id: i64,
}

#[idempotent_job(topic = "grown", key = "id")]
async fn grown(tx: &mut PgTx, work: Work, meta: Meta) -> JobResult {
    Ok(effect_pg(tx, "grown", work.id, &meta).await?)
}

fn put(world: &World, ids: std::ops::Range<i64>, partitions: i64) {
    let record = |id: i64| Wire {
        partition: i32::try_from(id % partitions).expect("small"),
        payload: Some(json!({ "id": id }).to_string().into_bytes()),
        ..Wire::default()
    };
    world.put(&ids.clone().map(record).collect::<Vec<_>>());
    world.sent_too(&ids.collect::<Vec<_>>());
}

#[test]
fn con_04_records_of_new_partitions_are_read_from_the_first_one() {
    let broker = Broker::real(&[(GROWN, 1)]);
    broker.remake(GROWN, 1);
    let mut world = World::on(broker, Kind::Postgres, (GROWN, 1));
    put(&world, 0..100, 1);
    let worker = world.work_as([GROWN], |builder| builder.property("topic.metadata.refresh.interval.ms", "2000"));
    world.settled(PATIENCE);
    world.broker.grow(GROWN, 3);
    world.topic = (GROWN, 3);
    // Before the worker hears of the new partitions, and behind that.
    put(&world, 100..400, 3);
    world.settled(PATIENCE);
    put(&world, 400..700, 3);
    world.settled(PATIENCE);
    worker.stop().expect("a clean stop");
    world.assert_once();
}
