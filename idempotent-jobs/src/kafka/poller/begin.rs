//! Where partitions begin: what the brokers say, what the intake answers, and the way there.
//!
//! Until that is known, what librdkafka delivers by itself is held. It begins at the committed offset, which
//! mostly is right. Where it is not, the partition is assigned again with its offset: librdkafka starts
//! partitions on a thread of its own, and drops, without a word, a start that a seek overtakes.

use std::collections::BTreeSet;
use std::time::Instant;

use rdkafka::consumer::{Consumer as _, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Offset, TopicPartitionList};
use tracing::{error, warn};

use super::Poller;
use crate::kafka::consumer::OnGap;
use crate::kafka::faults::{self, Fault};
use crate::kafka::membership::{State, list};
use crate::kafka::{Facts, Partition, facts, gaps};

impl Poller {
    /// Finds out where new partitions, and those whose position is in doubt, are to be read from, and hands over
    /// what was held meanwhile; what cannot be found out waits alone.
    pub(super) fn begin(&mut self) {
        self.take_doubts();
        {
            let state = self.consumer.context().state();
            if state.unchecked.is_empty() || state.halted {
                return;
            }
            self.later.keep(&state.unchecked);
        }
        let began = Instant::now();
        self.gather();
        let Some(ready) = self.decide() else { return };
        let is_late = began.elapsed() > self.look;
        let Some(checked) = self.look_for_gaps(ready, is_late) else { return };
        let (again, checked) = self.restarts(checked);
        if let Err(error) = self.restart(&again) {
            return self.fail(format!("partitions cannot be read from where they have to be: {error}: start again"));
        }
        self.release(checked);
    }

    fn take_doubts(&self) {
        let doubted = self.membership().intake.doubted();
        if doubted.is_empty() {
            return;
        }
        let mut state = self.membership().state();
        for partition in doubted.iter().filter(|partition| state.owned.contains(*partition)).collect::<Vec<_>>() {
            state.doubt(partition);
        }
    }

    /// Asks the brokers about those of which nothing is known.
    fn gather(&mut self) {
        let mut due: Vec<Partition> = {
            let state = self.consumer.context().state();
            let fresh = |at: &&Partition| !state.begun.contains_key(*at) && !state.facts.contains_key(*at);
            state.unchecked.iter().filter(fresh).filter(|at| self.later.due(at)).cloned().collect()
        };
        if due.is_empty() {
            return;
        }
        due.sort_by_key(|partition| self.later.times(partition));
        let (times, own) = (|at: &Partition| self.later.times(at), |at: &Partition| self.later.own(at));
        let doubted = self.membership().state().astray.clone();
        for (partition, found) in facts::gather(&self.consumer, &due, self.latest, times, own, &doubted, self.look) {
            match found {
                Ok(facts) => _ = self.membership().state().facts.insert(partition, facts),
                Err(miss) => self.look_again(&partition, &miss.error, miss.own),
            }
        }
    }

    /// Asks the intake where those are to begin of which facts are known. All that are to be compared with the
    /// log now, each with its next offset; `None` when the worker ends.
    fn decide(&mut self) -> Option<Vec<(Partition, i64)>> {
        let asked: Vec<Facts> = self.membership().state().facts.values().cloned().collect();
        for facts in asked {
            match self.membership().intake.start(&facts) {
                None => {}
                Some(Ok(start)) => self.membership().state().begin(facts, start),
                Some(Err(why)) => {
                    self.fail(why);
                    return None;
                }
            }
        }
        let state = self.membership().state();
        let next = |at: &Partition| {
            let start = state.begun.get(at)?;
            Some((at.clone(), state.next.get(at).copied().unwrap_or(start.offset)))
        };
        Some(state.unchecked.iter().filter(|at| self.later.due(at)).filter_map(next).collect())
    }

    /// Those that begin where their log still is, or whose gap is reported; `None` when the worker ends. When it is
    /// late, and the brokers were asked for long, those that they have to be asked about wait until it was polled.
    fn look_for_gaps(&mut self, mut ready: Vec<(Partition, i64)>, is_late: bool) -> Option<Vec<Partition>> {
        if ready.is_empty() {
            return Some(Vec::new());
        }
        let mut checked = Vec::new();
        {
            // What the facts just said is not asked again.
            let state = self.consumer.context().state();
            ready.retain(|(partition, next)| {
                let within = state.starts.get(partition).is_some_and(|start| next >= start);
                if within {
                    checked.push(partition.clone());
                }
                !within
            });
        }
        if is_late {
            ready.clear();
        }
        let known: BTreeSet<Partition> = checked.iter().cloned().collect();
        ready.sort_by_key(|(partition, _)| self.later.times(partition));
        let mut lost = Vec::new();
        let found = match ready.is_empty() {
            true => Vec::new(),
            false => gaps::find(&self.consumer, ready, |at| self.later.times(at) == 0, self.look),
        };
        for (partition, found) in found {
            match found {
                Ok(gap) => {
                    let mut state = self.membership().state();
                    // It was set to the log's start, and not since messages were deleted.
                    if gap.is_none() && state.reset.contains(&partition) {
                        state.doubt(&partition);
                        continue;
                    }
                    drop(state);
                    lost.extend(gap);
                    checked.push(partition);
                }
                Err(error) => self.look_again(&partition, &error, true),
            }
        }
        if !lost.is_empty() {
            let text = format!("messages lost: {}", gaps::sentence(&lost));
            if self.settings.on_gap == OnGap::Stop {
                self.fail(text);
                return None;
            }
            error!("{text}");
        }
        // One that was reset while others were asked about is compared with its log in the next turn.
        let state = self.membership().state();
        checked.retain(|partition| !known.contains(partition) || !state.reset.contains(partition));
        Some(checked)
    }

    fn look_again(&mut self, partition: &Partition, error: &KafkaError, own: bool) {
        let Partition { topic, number } = partition;
        let failing = self.later.put_off(partition, own);
        let advice = match gaps::fault(error) {
            Fault::Missing if failing < self.settings.missing_budget => None,
            Fault::Missing => Some(faults::MISSING),
            Fault::Lasting(advice) => Some(advice),
            Fault::Nothing | Fault::Passing | Fault::Slept => None,
        };
        if let Some(advice) = advice {
            return self.fail(format!(
                "topic {topic}, partition {number}: the group's offset cannot be compared with the log: {error}: {advice}"
            ));
        }
        if self.trouble.due() {
            warn!(%error, %topic, partition = number, "cannot compare the committed offset with the log yet; no message of the partition is handed over before");
        }
    }

    /// Those of which librdkafka is to be told where they begin, and the rest.
    fn restarts(&self, checked: Vec<Partition>) -> (Vec<Partition>, Vec<Partition>) {
        let mut state = self.membership().state();
        let again = checked.iter().filter(|at| state.astray.remove(*at)).cloned().collect();
        (again, checked)
    }

    /// Assigns partitions again, each at its offset. With the eager protocol that is all that are owned: the others
    /// go on where they are.
    fn restart(&self, again: &[Partition]) -> KafkaResult<()> {
        if again.is_empty() {
            return Ok(());
        }
        let cooperative = matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let (all, offsets, paused) = {
            let state = self.membership().state();
            let all: Vec<Partition> = if cooperative { again.to_vec() } else { state.owned.iter().cloned().collect() };
            (all.clone(), offsets(&state, &all, again)?, state.paused_of(&all))
        };
        // While they run: a pause would be remembered.
        self.membership().forget_pauses(&self.consumer, &paused);
        if cooperative {
            self.consumer.incremental_unassign(&list(&all))?;
            self.consumer.incremental_assign(&offsets)?;
        } else {
            self.consumer.assign(&offsets)?;
        }
        self.membership().state().assigned_again(&all, again);
        Ok(())
    }

    fn release(&self, checked: Vec<Partition>) {
        if checked.is_empty() {
            return;
        }
        let (held, running) = {
            let mut state = self.membership().state();
            for partition in &checked {
                state.unchecked.remove(partition);
                state.reset.remove(partition);
            }
            let State { holding, paused, .. } = &mut *state;
            let held = checked.into_iter().filter(|partition| holding.remove(partition));
            let running: Vec<Partition> = held.filter(|partition| !paused.contains(partition)).collect();
            (std::mem::take(&mut state.held), running)
        };
        self.resume(&running);
        held.into_iter().for_each(|message| self.accept(message));
    }
}

/// Where each of them goes on.
fn offsets(state: &State, all: &[Partition], again: &[Partition]) -> KafkaResult<TopicPartitionList> {
    let mut offsets = TopicPartitionList::new();
    for partition in all {
        let begun = state.begun.get(partition).map(|start| start.offset);
        let next = state.next.get(partition).copied().filter(|_| !again.contains(partition)).or(begun);
        let offset = next.map_or(Offset::Stored, Offset::Offset);
        offsets.add_partition_offset(&partition.topic, partition.number, offset)?;
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Start;

    #[test]
    fn one_that_is_idle_stays_where_it_is_however_often_others_are_assigned_again() {
        let all: Vec<Partition> = (0..2).map(|number| Partition { topic: "orders".into(), number }).collect();
        let mut state = State::default();
        for partition in &all {
            state.begun.insert(partition.clone(), Start { offset: 5, mark: "mark".into() });
            state.next.insert(partition.clone(), 9);
        }
        for _ in 0..2 {
            let offsets = offsets(&state, &all, &all[..1]).expect("these are offsets");
            let offsets: Vec<Offset> = offsets.elements().iter().map(|element| element.offset()).collect();
            assert_eq!(offsets, [Offset::Offset(5), Offset::Offset(9)]);
            state.assigned_again(&all, &all[..1]);
            assert!(state.flowing().is_empty(), "nothing of them was delivered yet");
        }
    }
}
