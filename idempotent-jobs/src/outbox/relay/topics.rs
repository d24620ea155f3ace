//! What the window knows of a topic: how much of the window it has, and whether it moves. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use super::window::{Bounds, Slot};

/// A topic of which something was sent so lately moves.
const LATELY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Topic {
    /// What it has of the window.
    pub held: Share,
    /// Of that, what is on its way.
    pub flying: Share,
    /// Of what is held, what is in trouble, or waits behind a record that is.
    pub slow: Share,
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
        if self.held.rows == 0 {
            self.since = now;
        }
        self.held.add(bytes);
    }

    /// What it has that does not move: everything, or what is slow.
    pub fn stuck(&self, now: Duration) -> Share {
        if self.moves(now) { self.slow } else { self.held }
    }

    /// Whether it has only begun: its first reports may still come.
    pub fn begins(&self, now: Duration) -> bool {
        !self.moves(now) && now.saturating_sub(self.since) < LATELY
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

/// A part of the window.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub rows: usize,
    pub bytes: usize,
}

impl Share {
    /// The whole of it.
    pub fn all(bounds: Bounds) -> Self {
        Self { rows: bounds.rows, bytes: bounds.bytes }
    }

    pub fn add(&mut self, bytes: usize) {
        *self = self.and(Self { rows: 1, bytes });
    }

    pub fn sub(&mut self, bytes: usize) {
        *self = self.less(Self { rows: 1, bytes });
    }

    pub fn and(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, bytes: self.bytes + other.bytes }
    }

    pub fn less(self, other: Self) -> Self {
        Self { rows: self.rows.saturating_sub(other.rows), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Whether there is less of both.
    pub fn is_below(self, other: Self) -> bool {
        self.rows < other.rows && self.bytes < other.bytes
    }

    /// What one may have that does not move: half of what the others of its kind left. So
    /// however many are stuck, there is room for one that is not.
    pub fn cap(self, others: Self) -> Self {
        let left = self.less(others);
        Self { rows: (left.rows / 2).max(1), bytes: (left.bytes / 2).max(1) }
    }
}
