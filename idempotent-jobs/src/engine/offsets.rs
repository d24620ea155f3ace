//! Invariant: the watermark never passes an offset that was accepted and is not settled.
//!
//! Only offsets that were seen are tracked, because compaction and transaction markers leave
//! holes that no message will ever fill.

use std::collections::VecDeque;

/// How an offset stands to those seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Above all others.
    New,
    /// Accepted before and not settled yet.
    Known,
    /// At or below one that was settled: the reader's position went back.
    Back,
}

/// The settled prefix of one partition during one epoch.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    open: VecDeque<(i64, bool)>,
    watermark: Option<i64>,
    confirmed: Option<i64>,
    start: Option<i64>,
    /// What the database says.
    recorded: Option<i64>,
}

impl Offsets {
    /// An assignment whose watermark in the database is `recorded`.
    pub fn recorded_at(recorded: i64) -> Self {
        Self { recorded: Some(recorded), ..Self::default() }
    }

    /// The same, and Kafka does not know that.
    pub fn uncommitted_at(recorded: i64) -> Self {
        Self { watermark: Some(recorded), ..Self::recorded_at(recorded) }
    }

    /// Of a position that went back. What the database says stands.
    pub fn begun_again(&self) -> Self {
        Self { recorded: self.recorded, ..Self::default() }
    }

    /// A message was read. Only a `New` one is tracked.
    pub fn accept(&mut self, offset: i64) -> Arrival {
        if self.is_seen(offset) {
            return if self.is_back(offset) { Arrival::Back } else { Arrival::Known };
        }
        if self.watermark.is_none() {
            self.watermark = Some(offset);
            self.confirmed = Some(offset);
        }
        self.start.get_or_insert(offset);
        self.open.push_back((offset, false));
        Arrival::New
    }

    /// Whether accepting the offset would be `Back`.
    pub fn is_back(&self, offset: i64) -> bool {
        self.is_seen(offset) && self.open.binary_search_by_key(&offset, |(offset, _)| *offset).is_err()
    }

    fn is_seen(&self, offset: i64) -> bool {
        let last = self.open.back().map(|(offset, _)| *offset).or(self.watermark.map(|mark| mark - 1));
        last.is_some_and(|last| offset <= last)
    }

    /// How many messages are tracked: the first unsettled one and all behind it.
    pub fn span(&self) -> usize {
        self.open.len()
    }

    /// The first offset that was read.
    pub fn start(&self) -> Option<i64> {
        self.start
    }

    /// The first offset that is not settled.
    pub fn first(&self) -> Option<i64> {
        self.open.front().map(|(offset, _)| *offset)
    }

    /// A message is settled: the watermark moves over the finished prefix.
    pub fn settle(&mut self, offset: i64) {
        if let Ok(index) = self.open.binary_search_by_key(&offset, |(offset, _)| *offset) {
            self.open[index].1 = true;
        }
        while let Some((offset, true)) = self.open.front().copied() {
            self.open.pop_front();
            self.watermark = Some(offset + 1);
        }
    }

    /// What the database says, as far as is known.
    pub fn recorded(&self) -> Option<i64> {
        self.recorded
    }

    /// What the database says, and what it is to say, if that is more.
    pub fn to_record(&self) -> Option<(i64, i64)> {
        let (recorded, watermark) = (self.recorded?, self.watermark?);
        (watermark > recorded).then_some((recorded, watermark))
    }

    /// The database says so. An answer that comes late never moves it back.
    pub fn record(&mut self, position: i64) {
        self.recorded = self.recorded.map(|recorded| recorded.max(position));
    }

    /// Whether something was read that the database does not say yet.
    pub fn is_ahead(&self) -> bool {
        self.to_record().is_some() || !self.open.is_empty()
    }

    /// The position to commit, if it moved since it was last confirmed: never more than the
    /// database says.
    pub fn to_commit(&self) -> Option<i64> {
        let position = self.watermark?.min(self.recorded?);
        (Some(position) > self.confirmed).then_some(position)
    }

    /// `position` was committed. An answer that comes late never moves it back.
    pub fn confirm(&mut self, position: i64) {
        self.confirmed = self.confirmed.max(Some(position));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As if every position were recorded as soon as it is reached.
    fn recorded() -> Offsets {
        Offsets::recorded_at(i64::MAX)
    }

    #[test]
    fn nothing_is_committed_that_the_database_does_not_say() {
        let mut offsets = Offsets::recorded_at(5);
        assert!(!offsets.is_ahead(), "nothing was read");
        (5..9).for_each(|offset| _ = offsets.accept(offset));
        assert_eq!((offsets.to_record(), offsets.is_ahead()), (None, true));
        offsets.settle(6);
        assert_eq!((offsets.to_record(), offsets.is_ahead()), (None, true));
        offsets.settle(5);
        assert_eq!((offsets.to_commit(), offsets.to_record()), (None, Some((5, 7))));
        offsets.record(7);
        assert_eq!((offsets.to_commit(), offsets.to_record()), (Some(7), None));
        offsets.settle(7);
        offsets.record(6);
        assert_eq!((offsets.to_commit(), offsets.to_record()), (Some(7), Some((7, 8))));
        assert_eq!(Offsets::default().to_commit(), None);
    }

    #[test]
    fn what_is_read_again_below_the_recorded_position_is_committed_as_it_is_settled() {
        let mut offsets = Offsets::recorded_at(100);
        (3..6).for_each(|offset| _ = offsets.accept(offset));
        offsets.settle(3);
        assert_eq!((offsets.to_commit(), offsets.to_record()), (Some(4), None));
    }

    #[test]
    fn con_01_commits_only_the_finished_prefix() {
        let mut offsets = recorded();
        (0..10).for_each(|offset| assert_eq!(offsets.accept(offset), Arrival::New));
        (0..10).filter(|offset| *offset != 5).for_each(|offset| offsets.settle(offset));
        assert_eq!(offsets.to_commit(), Some(5));
        offsets.settle(5);
        assert_eq!(offsets.to_commit(), Some(10));
    }

    #[test]
    fn con_02_a_message_that_is_only_queued_is_not_done() {
        let mut offsets = recorded();
        offsets.accept(7);
        assert_eq!(offsets.to_commit(), None);
    }

    #[test]
    fn holes_of_compacted_topics_do_not_hold_the_watermark() {
        let mut offsets = recorded();
        [3, 9, 40].into_iter().for_each(|offset| assert_eq!(offsets.accept(offset), Arrival::New));
        offsets.settle(3);
        assert_eq!(offsets.to_commit(), Some(4));
        offsets.settle(40);
        assert_eq!(offsets.to_commit(), Some(4));
        offsets.settle(9);
        assert_eq!(offsets.to_commit(), Some(41));
    }

    #[test]
    fn a_confirmed_position_is_not_committed_again() {
        let mut offsets = recorded();
        offsets.accept(0);
        offsets.settle(0);
        offsets.confirm(1);
        assert_eq!(offsets.to_commit(), None);
        offsets.confirm(0);
        assert_eq!(offsets.to_commit(), None);
    }

    #[test]
    fn a_position_that_goes_back_is_told_from_a_message_on_its_way() {
        let mut offsets = recorded();
        offsets.accept(5);
        offsets.accept(6);
        offsets.settle(5);
        assert_eq!(offsets.accept(6), Arrival::Known);
        assert_eq!(offsets.accept(5), Arrival::Back);
        assert_eq!(offsets.accept(0), Arrival::Back);
    }

    #[test]
    fn what_kafka_does_not_know_is_committed_before_anything_is_read() {
        let mut offsets = Offsets::uncommitted_at(10);
        assert_eq!((offsets.to_commit(), offsets.to_record(), offsets.start()), (Some(10), None, None));
        assert_eq!(offsets.accept(12), Arrival::New);
        assert_eq!((offsets.to_commit(), offsets.start()), (Some(10), Some(12)));
        offsets.confirm(10);
        assert_eq!(offsets.to_commit(), None);
        offsets.settle(12);
        offsets.record(13);
        assert_eq!(offsets.to_commit(), Some(13));
    }

    proptest! {
        #[test]
        fn the_watermark_never_passes_an_unsettled_offset(
            gaps in prop::collection::vec(1i64..5, 1..60),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let seen: Vec<i64> = gaps.iter().scan(-1, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut offsets = recorded();
            seen.iter().for_each(|offset| assert_eq!(offsets.accept(*offset), Arrival::New));
            let mut unsettled: std::collections::BTreeSet<i64> = seen.iter().copied().collect();
            for index in order {
                let offset = *index.get(&seen);
                unsettled.remove(&offset);
                offsets.settle(offset);
                let watermark = offsets.to_commit().unwrap_or(seen[0]);
                match unsettled.first() {
                    Some(first) => prop_assert!(watermark <= *first),
                    None => prop_assert_eq!(watermark, seen[seen.len() - 1] + 1),
                }
            }
        }
    }
}
