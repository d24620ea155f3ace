//! Which shards this relay may send for, and how many it should have. Pure; times are passed in.

use std::time::Duration;

use crate::store::{self, Kept, LEASE};

/// How many there are.
const SHARDS: usize = store::SHARDS as usize;

#[cfg(test)]
mod tests;

/// Before the lease is over, the relay has stopped: clocks do not run alike, and what was handed
/// over at the last moment takes a moment more.
const MARGIN: Duration = Duration::from_millis(500);

/// How many shards a relay should have when so many live.
pub(crate) fn fair(live: usize) -> usize {
    SHARDS.div_ceil(live.max(1))
}

#[derive(Debug, Clone, Copy)]
struct Held {
    /// Which time of holding it is: what was read in another one is stale.
    epoch: u64,
    /// Nothing is sent from then on.
    until: Duration,
    /// To be given back once nothing of it is on its way.
    closing: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    held: [Option<Held>; SHARDS],
    epochs: u64,
}

/// The times of holding when a read began.
pub(crate) type Epochs = Box<[Option<u64>; SHARDS]>;

impl Shards {
    /// The database's answer to a renewal that was begun at `asked`. Shards that are not what they
    /// were: lost, or had by others in between.
    pub fn kept(&mut self, kept: &Kept, asked: Duration) -> Vec<i16> {
        let until = (asked + LEASE).saturating_sub(MARGIN);
        let mut gone = Vec::new();
        for (number, held) in all().zip(&mut self.held) {
            let renewed = kept.renewed.contains(&number);
            let taken = kept.taken.contains(&number);
            match held {
                Some(held) if renewed => held.until = until,
                Some(_) => gone.push(number),
                None => {}
            }
            if !renewed {
                *held = None;
            }
            if held.is_none() && (taken || renewed) {
                self.epochs += 1;
                *held = Some(Held { epoch: self.epochs, until, closing: false });
            }
        }
        gone
    }

    /// Chooses what is to be given back, or takes the choice back; `idle` tells which shards have
    /// nothing on their way, and are the first to go.
    pub fn balance(&mut self, live: usize, idle: impl Fn(i16) -> bool) {
        let surplus = self.count().saturating_sub(fair(live));
        let mut owned: Vec<i16> = self.owned().collect();
        owned.sort_by_key(|shard| (!self.is_closing(*shard), !idle(*shard), *shard));
        for (at, shard) in owned.into_iter().enumerate() {
            if let Some(held) = self.at_mut(shard) {
                held.closing = at < surplus;
            }
        }
    }

    /// They were given back.
    pub fn released(&mut self, shards: &[i16]) {
        for shard in shards {
            if let Some(place) = usize::try_from(*shard).ok().and_then(|at| self.held.get_mut(at)) {
                *place = None;
            }
        }
    }

    /// All are to be given back: the relay ends.
    pub fn close(&mut self) {
        self.held.iter_mut().flatten().for_each(|held| held.closing = true);
    }

    /// How many are its own.
    pub fn count(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// Whether it is its own, as far as it knows.
    pub fn owns(&self, shard: i16) -> bool {
        self.at(shard).is_some()
    }

    /// Whether something of it may be sent now.
    pub fn may_send(&self, shard: i16, now: Duration) -> bool {
        self.at(shard).is_some_and(|held| !held.closing && now < held.until)
    }

    /// What may be sent for.
    pub fn open(&self, now: Duration) -> Vec<i16> {
        all().filter(|shard| self.may_send(*shard, now)).collect()
    }

    /// What is to be given back.
    pub fn closing(&self) -> Vec<i16> {
        all().filter(|shard| self.is_closing(*shard)).collect()
    }

    /// The times of holding, for whoever begins to read.
    pub fn epochs(&self) -> Epochs {
        Box::new(self.held.map(|held| held.map(|held| held.epoch)))
    }

    /// Whether a shard was held all the time since.
    pub fn held_since(&self, shard: i16, epochs: &Epochs) -> bool {
        let then = usize::try_from(shard).ok().and_then(|at| *epochs.get(at)?);
        self.at(shard).is_some_and(|held| !held.closing && Some(held.epoch) == then)
    }

    fn owned(&self) -> impl Iterator<Item = i16> {
        all().filter(|shard| self.owns(*shard))
    }

    fn is_closing(&self, shard: i16) -> bool {
        self.at(shard).is_some_and(|held| held.closing)
    }

    fn at(&self, shard: i16) -> Option<&Held> {
        self.held.get(usize::try_from(shard).ok()?)?.as_ref()
    }

    fn at_mut(&mut self, shard: i16) -> Option<&mut Held> {
        self.held.get_mut(usize::try_from(shard).ok()?)?.as_mut()
    }
}

/// Their numbers.
fn all() -> impl Iterator<Item = i16> {
    (0i16..).take(SHARDS)
}
