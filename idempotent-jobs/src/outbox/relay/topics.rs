//! What the window knows of a topic: how much of the window it has, and whether it moves. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use super::window::Slot;

/// A topic of which something was sent so lately moves.
const LATELY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Topic {
    pub rows: usize,
    pub bytes: usize,
    /// Records that may leave, in their order.
    pub ready: VecDeque<Slot>,
    pub paused_until: Option<Duration>,
    pub troubles: u32,
    last_move: Option<Duration>,
    /// Since when it has records here.
    since: Duration,
}

impl Topic {
    pub fn moves(&self, now: Duration) -> bool {
        self.last_move.is_some_and(|last| now.saturating_sub(last) < LATELY)
    }

    /// A record more.
    pub fn add(&mut self, bytes: usize, now: Duration) {
        if self.rows == 0 {
            self.since = now;
        }
        self.rows += 1;
        self.bytes += bytes;
    }

    /// Whether it does not move though it had the time.
    pub fn is_stuck(&self, now: Duration) -> bool {
        !self.moves(now) && now.saturating_sub(self.since) >= LATELY
    }

    pub fn moved(&mut self, now: Duration) {
        self.last_move = Some(now);
        self.troubles = 0;
        self.paused_until = None;
    }

    pub fn is_paused(&self, now: Duration) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    pub fn pause(&mut self, until: Duration) {
        self.troubles = self.troubles.saturating_add(1);
        self.paused_until = Some(until);
    }
}

/// What topics have of the window.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Share {
    pub rows: usize,
    pub bytes: usize,
}

impl Share {
    pub fn and(self, topic: &Topic) -> Self {
        Self { rows: self.rows + topic.rows, bytes: self.bytes + topic.bytes }
    }
}

/// What a topic may have that does not move: half of what the others of its kind left. So
/// however many topics are stuck, there is room for one that is not.
pub(super) fn cap(all: usize, others: usize) -> usize {
    (all.saturating_sub(others) / 2).max(1)
}
