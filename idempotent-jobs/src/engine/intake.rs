//! What the consumer's thread feeds and asks.

use std::time::Instant;

use super::Engine;
use super::probe::Point;
use crate::error::Error;
use crate::kafka::{Intake, Partition, Position, Room};
use crate::message::{Coordinates, Message};
use crate::store::Store;
use crate::telemetry;

impl<S: Store> Intake for Engine<S> {
    fn assigned(&self, partitions: &[Partition]) {
        let mut lanes = self.lanes();
        for partition in partitions {
            lanes.assign(partition);
        }
        metrics::gauge!(telemetry::ASSIGNED).set(lanes.assigned().len() as f64);
    }

    fn revoked(&self, partitions: &[Partition], deadline: Instant) -> Vec<Position> {
        let mut lanes = self.lanes();
        for partition in partitions {
            lanes.drain(partition);
        }
        while lanes.running(partitions) > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let running = lanes.running(partitions);
                tracing::warn!(
                    running,
                    "gave partitions up while jobs still run: their claims keep the effects single"
                );
                break;
            }
            lanes = self.rest.wait_timeout(lanes, left).expect("lanes do not panic").0;
        }
        let positions = lanes.to_commit(partitions);
        for partition in partitions {
            lanes.forget(partition);
        }
        metrics::gauge!(telemetry::ASSIGNED).set(lanes.assigned().len() as f64);
        positions
    }

    fn lost(&self, partitions: &[Partition]) {
        let mut lanes = self.lanes();
        for partition in partitions {
            lanes.forget(partition);
        }
        metrics::gauge!(telemetry::ASSIGNED).set(lanes.assigned().len() as f64);
    }

    fn accept(&self, message: Message) -> Room {
        let room = self.lanes().push(message);
        self.work.notify_one();
        room
    }

    fn relieved(&self) -> Vec<Partition> {
        self.lanes().relieved()
    }

    fn settled(&self) -> Vec<Position> {
        let lanes = self.lanes();
        lanes.to_commit(&lanes.assigned())
    }

    fn committed(&self, positions: &[Position]) {
        {
            let mut lanes = self.lanes();
            positions.iter().for_each(|position| lanes.confirm(position));
        }
        for Position { partition, offset } in positions {
            let at = Coordinates { topic: partition.topic.clone(), partition: partition.number, offset: offset - 1 };
            self.probe.reached(Point::OffsetCommitted, &at);
        }
    }

    fn failed(&self, error: Error) {
        self.fail(error);
    }
}
