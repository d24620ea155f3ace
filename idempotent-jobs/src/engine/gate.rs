//! Lets what may kill the process run with nothing beside it.
//!
//! Invariants: while a message runs alone, no other job of this process runs, of whatever worker, and no
//! payload is read. Who waits here holds no connection: those who run may need it. Of those that wait to run alone the
//! one goes first that a process was struck down in before. So whoever strikes at processes, and not at a message, mostly strikes
//! others the next time; and a message that kills does so as soon as it can.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Of the whole process: all its workers die together.
static GATE: Gate = Gate::new();

/// Held while a message runs.
pub(super) enum Pass {
    /// Others may run beside it.
    Beside { _held: RwLockReadGuard<'static, ()> },
    /// None does.
    Alone { _held: RwLockWriteGuard<'static, ()>, _turn: Turn },
}

/// Which of those that wait to run alone goes first: the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// No process died in it so far.
    pub unstruck: bool,
    /// How many offsets it lies behind the beginning of its partition: no partition waits for all of another.
    pub behind: i64,
}

/// At once, unless somebody runs alone or waits to.
pub(super) fn try_beside() -> Option<Pass> {
    GATE.lock.try_read().ok().map(|held| Pass::Beside { _held: held })
}

/// Waits until nobody runs alone.
pub(super) async fn beside() -> Pass {
    Pass::Beside { _held: GATE.lock.read().await }
}

/// Waits until it is its turn and nobody runs. Those who come later wait for this one, once it has its turn.
pub(super) async fn alone(rank: Rank) -> Pass {
    GATE.alone(rank).await
}

struct Gate {
    lock: RwLock<()>,
    turns: Mutex<Turns>,
    /// Rung whenever one has left.
    left: Notify,
}

struct Turns {
    /// One has its turn.
    taken: bool,
    /// Those that wait for theirs, each with a number of its own.
    waiting: BTreeSet<(Rank, u64)>,
    last: u64,
}

impl Gate {
    const fn new() -> Self {
        let turns = Turns { taken: false, waiting: BTreeSet::new(), last: 0 };
        Self { lock: RwLock::const_new(()), turns: Mutex::new(turns), left: Notify::const_new() }
    }

    async fn alone(&'static self, rank: Rank) -> Pass {
        let mut turn = Turn::new(self, rank);
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if turn.take() {
                break;
            }
            left.await;
        }
        Pass::Alone { _held: self.lock.write().await, _turn: turn }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of one, or its place among those that wait.
pub(super) struct Turn {
    gate: &'static Gate,
    place: (Rank, u64),
    taken: bool,
}

impl Turn {
    fn new(gate: &'static Gate, rank: Rank) -> Self {
        let mut turns = gate.turns();
        turns.last += 1;
        let place = (rank, turns.last);
        turns.waiting.insert(place);
        Self { gate, place, taken: false }
    }

    /// Whether it is this one's.
    fn take(&mut self) -> bool {
        let mut turns = self.gate.turns();
        if turns.taken || turns.waiting.first() != Some(&self.place) {
            return false;
        }
        turns.waiting.remove(&self.place);
        (turns.taken, self.taken) = (true, true);
        true
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = self.gate.turns();
        if self.taken {
            turns.taken = false;
        } else {
            turns.waiting.remove(&self.place);
        }
        drop(turns);
        self.gate.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn rank(unstruck: bool, behind: i64) -> Rank {
        Rank { unstruck, behind }
    }

    #[tokio::test]
    async fn who_was_struck_goes_first_and_then_the_nearest() {
        let gate: &'static Gate = Box::leak(Box::new(Gate::new()));
        let first = gate.alone(rank(true, 7)).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let waits = |rank| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                let _pass = gate.alone(rank).await;
                order.lock().unwrap().push(rank);
            })
        };
        let ranks = [rank(true, 3), rank(false, 9), rank(true, 1), rank(true, 1), rank(false, 2)];
        let waiting = ranks.map(waits);
        while gate.turns().waiting.len() < 5 {
            tokio::task::yield_now().await;
        }
        drop(first);
        for one in waiting {
            one.await.expect("it has its turn");
        }
        assert_eq!(
            *order.lock().unwrap(),
            [rank(false, 2), rank(false, 9), rank(true, 1), rank(true, 1), rank(true, 3)]
        );
        assert!(gate.turns().waiting.is_empty() && !gate.turns().taken && gate.lock.try_write().is_ok());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_holds_up_nobody() {
        let gate: &'static Gate = Box::leak(Box::new(Gate::new()));
        let first = gate.alone(rank(true, 1)).await;
        let waits = tokio::spawn(gate.alone(rank(false, 0)));
        while gate.turns().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        waits.abort();
        assert!(waits.await.is_err());
        drop(first);
        drop(gate.alone(rank(true, 5)).await);
    }
}
