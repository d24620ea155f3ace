//! What the consumer's thread feeds and asks.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};

use super::Engine;
use super::probe::Point;
use crate::error::Error;
use crate::kafka::{Facts, Intake, Partition, Position, Room, Start};
use crate::message::{Coordinates, Message};
use crate::store::Store;
use crate::telemetry;

/// How often the consumer's thread shows that it lives while it waits for running jobs.
const BEAT: Duration = Duration::from_secs(1);
/// What the last watermarks get at least, when running jobs took all of the time.
const LAST_WORD: Duration = Duration::from_secs(1);

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
            lanes = self.rest.wait_timeout(lanes, left.min(BEAT)).expect("lanes do not panic").0;
            // This is the consumer's thread, which sleeps here and is not asleep.
            self.polled();
        }
        drop(lanes);
        self.record_before(deadline);
        let mut lanes = self.lanes();
        let positions = lanes.to_commit(partitions);
        for partition in partitions {
            lanes.forget(partition);
        }
        self.owners.leave(partitions);
        metrics::gauge!(telemetry::ASSIGNED).set(lanes.assigned().len() as f64);
        self.health.gone(places(partitions));
        positions
    }

    fn lost(&self, partitions: &[Partition]) {
        let mut lanes = self.lanes();
        for partition in partitions {
            lanes.forget(partition);
        }
        self.owners.leave(partitions);
        metrics::gauge!(telemetry::ASSIGNED).set(lanes.assigned().len() as f64);
        self.health.gone(places(partitions));
    }

    fn member(&self, is_member: bool) {
        self.health.member(is_member);
    }

    fn accept(&self, message: Message) -> Room {
        // Only topics of jobs are subscribed to.
        let Some(place) = self.classes.place(&message) else { return Room::Open };
        let at = message.coordinates.clone();
        let room = self.lanes().push(message, place);
        self.probe.reached(Point::Accepted, &at);
        self.work.notify_one();
        room
    }

    fn polled(&self) {
        self.health.polled();
        if let Some(asleep) = self.pulse.beat(Instant::now(), SystemTime::now()) {
            tracing::warn!(
                ?asleep,
                "this process did not poll for so long that its partitions may be another's: nothing is started before its group is heard of"
            );
        }
    }

    fn relieved(&self) -> Vec<Partition> {
        let (relieved, held_up) = {
            let mut lanes = self.lanes();
            (lanes.relieved(), lanes.held_up())
        };
        relieved.iter().for_each(|partition| self.health.relieved(&partition.topic, partition.number));
        for Position { partition: Partition { topic, number }, offset } in held_up {
            self.health.held_up(&topic, number, offset);
            metrics::counter!(telemetry::HELD_UP, "topic" => topic.to_string(), "partition" => number.to_string())
                .increment(1);
            tracing::warn!(
                %topic, partition = number, offset,
                "this message does not get done, and so much is done behind it that its partition is read no further before it is"
            );
        }
        relieved
    }

    fn start(&self, facts: &Facts) -> Option<Result<Start, String>> {
        self.start_of(facts)
    }

    fn doubted(&self) -> Vec<Partition> {
        self.watermarks.doubted()
    }

    fn record(&self) {
        self.watermarks.ring();
    }

    fn settled(&self) -> Vec<Position> {
        let positions = {
            let lanes = self.lanes();
            lanes.to_commit(&lanes.assigned())
        };
        self.health
            .waits_for_commit(positions.iter().map(|position| (&position.partition.topic, position.partition.number)));
        positions
    }

    fn committed(&self, positions: &[Position]) {
        {
            let mut lanes = self.lanes();
            positions.iter().for_each(|position| lanes.confirm(position));
        }
        for Position { partition, offset } in positions {
            self.health.committed(&partition.topic, partition.number);
            let at = Coordinates { topic: partition.topic.clone(), partition: partition.number, offset: offset - 1 };
            self.probe.reached(Point::OffsetCommitted, &at);
        }
    }

    fn failed(&self, error: Error) {
        self.fail(error);
    }
}

impl<S: Store> Engine<S> {
    /// What is settled is recorded, or it is not committed.
    fn record_before(&self, deadline: Instant) {
        if self.lanes().to_record().is_empty() {
            return;
        }
        let deadline = deadline.max(Instant::now() + LAST_WORD);
        let tried = self.watermarks.ring_and_wait();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match tried.recv_timeout(left.min(BEAT)) {
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => self.polled(),
                Err(RecvTimeoutError::Timeout) => {
                    tracing::warn!(
                        "the database did not take the last watermarks in time: what they are of is delivered again, and skipped"
                    );
                    return;
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

fn places(partitions: &[Partition]) -> impl Iterator<Item = (&Arc<str>, i32)> {
    partitions.iter().map(|partition| (&partition.topic, partition.number))
}
