//! What the consumer's thread holds of its group, and the rebalance callbacks.
//!
//! Invariant: a position is committed only when the intake returned it, and only while its
//! partition is owned. Callbacks run inside `poll`, on the consumer's thread; librdkafka's own
//! threads keep sending heartbeats meanwhile, so that waiting in a revoke costs the other
//! members time and nobody the session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::counter;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::{ClientContext, TopicPartitionList};
use tracing::{debug, info, warn};

use super::log::Sparing;
use super::native::{Commit, Marks, Verdict};
use super::{Facts, Intake, Partition, Position, Start, after, faults, log};
use crate::message::Message;
use crate::telemetry;

/// The context of the client.
pub(super) struct Membership {
    pub(super) intake: Arc<dyn Intake>,
    revoke_budget: Duration,
    /// Lets a warning of a commit through.
    commits: Sparing,
    state: Mutex<State>,
}

/// What changes with the assignment.
#[derive(Default)]
pub(super) struct State {
    pub(super) owned: BTreeSet<Partition>,
    pub(super) paused: BTreeSet<Partition>,
    /// Paused since messages of them are held.
    pub(super) holding: BTreeSet<Partition>,
    /// Not yet compared with the start of the log, since they were assigned or reset.
    pub(super) unchecked: BTreeSet<Partition>,
    /// What the brokers said of those of which it is not known yet where to begin.
    pub(super) facts: BTreeMap<Partition, Facts>,
    /// Where the logs start, as their facts said.
    pub(super) starts: BTreeMap<Partition, i64>,
    /// Where those began, or were assigned again, of which it is known.
    pub(super) begun: BTreeMap<Partition, Start>,
    /// Those that librdkafka is to be told where to begin, whatever it believes.
    pub(super) astray: BTreeSet<Partition>,
    /// Those that librdkafka set to the log's start by itself.
    pub(super) reset: BTreeSet<Partition>,
    /// The offset after the last accepted message, since the assignment.
    pub(super) next: BTreeMap<Partition, i64>,
    /// Messages of unchecked partitions, in the order they came.
    pub(super) held: Vec<Message>,
    /// Nothing is accepted any more.
    pub(super) halted: bool,
    /// The intake has let everything go already: leaving the group asks it nothing.
    pub(super) leaving: bool,
    /// Counts rebalances, so that an answer to a commit of before is not taken for one of now.
    pub(super) rebalances: u64,
    /// What librdkafka said of its last error.
    pub(super) said: String,
    names: HashMap<String, Arc<str>>,
}

impl State {
    /// A partition with its topic's name shared.
    pub(super) fn partition(&mut self, topic: &str, number: i32) -> Partition {
        let topic = match self.names.get(topic) {
            Some(name) => Arc::clone(name),
            None => Arc::clone(self.names.entry(topic.to_owned()).or_insert_with(|| Arc::from(topic))),
        };
        Partition { topic, number }
    }

    /// librdkafka goes on at the log's start when the next offset is gone, and only logs that:
    /// `orders [3]: offset reset (at offset 17, broker 1) to …`.
    fn suspect(&mut self, text: &str) {
        let reset =
            self.owned.iter().filter(|at| text.contains(&format!("{} [{}]: offset reset", at.topic, at.number)));
        let reset: Vec<Partition> = reset.cloned().collect();
        self.unchecked.extend(reset.iter().cloned());
        for partition in &reset {
            self.starts.remove(partition);
            // Where they are to begin is not known yet: what the brokers said of them is of before.
            self.facts.remove(partition);
        }
        self.reset.extend(reset);
    }

    /// What is read here and how far, since librdkafka's words name an offset at most:
    /// `read here: orders/0 next 17, orders/1`.
    pub(super) fn positions(&self) -> String {
        const SHOWN: usize = 20;
        if self.owned.is_empty() {
            return "no partition is read here".to_owned();
        }
        let mut shown: Vec<String> = self.owned.iter().take(SHOWN).map(|at| self.position(at)).collect();
        if self.owned.len() > SHOWN {
            shown.push(format!("and {} more", self.owned.len() - SHOWN));
        }
        format!("read here: {}", shown.join(", "))
    }

    fn position(&self, at: &Partition) -> String {
        let next = self.next.get(at).map(|next| format!(" next {next}")).unwrap_or_default();
        format!("{}/{}{next}", at.topic, at.number)
    }

    /// Those whose pause librdkafka would remember into their next assignment.
    pub(super) fn paused_of(&self, partitions: &[Partition]) -> Vec<Partition> {
        let paused = |partition: &&Partition| self.paused.contains(*partition) || self.holding.contains(*partition);
        partitions.iter().filter(paused).cloned().collect()
    }

    /// Those that have delivered and are not paused here.
    pub(super) fn flowing(&self) -> Vec<Partition> {
        let flowing = |at: &&Partition| {
            self.owned.contains(*at)
                && !self.paused.contains(*at)
                && !self.holding.contains(*at)
                && !self.unchecked.contains(*at)
        };
        self.next.keys().filter(flowing).cloned().collect()
    }

    /// The marks of those that began.
    pub(super) fn marks(&self) -> Marks {
        self.begun.iter().map(|(partition, start)| (partition.clone(), Arc::clone(&start.mark))).collect()
    }

    /// It is known where it begins. librdkafka begins by itself at the committed offset, or at the log's start.
    pub(super) fn begin(&mut self, facts: Facts, start: Start) {
        let Facts { partition, committed, start: log, latest, .. } = facts;
        let own = committed.map(|(offset, _)| offset).or((!latest).then_some(log));
        if own != Some(start.offset) {
            self.astray.insert(partition.clone());
        }
        self.facts.remove(&partition);
        // One that was reset meanwhile is compared with its log as it is now.
        if !self.reset.contains(&partition) {
            self.starts.insert(partition.clone(), log);
        }
        self.begun.insert(partition, start);
    }

    /// Where it is to begin is to be found out, and librdkafka to be told.
    pub(super) fn doubt(&mut self, partition: &Partition) {
        self.unchecked.insert(partition.clone());
        self.astray.insert(partition.clone());
        self.reset.remove(partition);
        self.facts.remove(partition);
        self.begun.remove(partition);
        self.next.remove(partition);
    }

    fn forget(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.owned.remove(partition);
            self.unchecked.remove(partition);
            self.facts.remove(partition);
            self.starts.remove(partition);
            self.begun.remove(partition);
            self.astray.remove(partition);
            self.reset.remove(partition);
        }
        self.restarted(partitions);
    }

    /// All of these were assigned again: those of `again` where they begin, the others where they were.
    pub(super) fn assigned_again(&mut self, all: &[Partition], again: &[Partition]) {
        for partition in all.iter().filter(|partition| !again.contains(partition)) {
            // Maybe nothing is delivered of it before the next time.
            if let (Some(next), Some(start)) = (self.next.get(partition), self.begun.get_mut(partition)) {
                start.offset = *next;
            }
        }
        self.restarted(all);
    }

    /// What was delivered of these partitions is no more to come, nor are answers to earlier commits.
    fn restarted(&mut self, partitions: &[Partition]) {
        self.rebalances += 1;
        for partition in partitions {
            self.paused.remove(partition);
            self.holding.remove(partition);
            self.next.remove(partition);
        }
        self.held.retain(|message| {
            let at = &message.coordinates;
            !partitions.iter().any(|gone| gone.number == at.partition && gone.topic == at.topic)
        });
    }
}

impl Membership {
    pub(super) fn new(intake: Arc<dyn Intake>, revoke_budget: Duration) -> Self {
        Self { intake, revoke_budget, commits: Sparing::new(Duration::from_secs(30)), state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partitions(&self, list: &TopicPartitionList) -> Vec<Partition> {
        let mut state = self.state();
        list.elements().iter().map(|element| state.partition(element.topic(), element.partition())).collect()
    }

    /// librdkafka is not asked to pause or resume a partition before it delivered: it starts the
    /// partition on a thread of its own meanwhile, and whichever of the two requests is numbered
    /// first but queued second it drops as outdated, without a word. A dropped start would leave
    /// the partition assigned and never read.
    fn assigned(&self, partitions: &[Partition]) {
        {
            let mut state = self.state();
            state.forget(partitions);
            state.owned.extend(partitions.iter().cloned());
            state.unchecked.extend(partitions.iter().cloned());
        }
        info!(partitions = %Listed(partitions), "partitions assigned");
        self.intake.assigned(partitions);
    }

    fn revoked(&self, consumer: &BaseConsumer<Self>, partitions: &[Partition]) {
        let (leaving, paused, marks) = {
            let mut state = self.state();
            let (paused, marks) = (state.paused_of(partitions), state.marks());
            state.forget(partitions);
            (state.leaving, paused, marks)
        };
        if leaving {
            return;
        }
        self.forget_pauses(consumer, &paused);
        if consumer.assignment_lost() {
            warn!(partitions = %Listed(partitions), "partitions lost: another member may own them already");
            return self.intake.lost(partitions);
        }
        let positions = self.intake.revoked(partitions, after(self.revoke_budget));
        info!(partitions = %Listed(partitions), "partitions revoked");
        commit_and_wait(consumer, positions, &marks);
    }

    /// Nothing is delivered by this: during a rebalance librdkafka pauses everything itself.
    pub(super) fn forget_pauses(&self, consumer: &BaseConsumer<Self>, paused: &[Partition]) {
        if !paused.is_empty()
            && let Err(error) = consumer.resume(&list(paused))
        {
            warn!(%error, partitions = %Listed(paused), "partitions that are given up could not be resumed");
        }
    }
}

/// How long a commit is waited for where nothing else can go on.
const COMMIT_WAIT: Duration = Duration::from_secs(5);

/// Those with a mark: an offset without one would be taken for one that a person set. A partition has none
/// while its position is in doubt.
pub(super) fn marked(mut positions: Vec<Position>, marks: &Marks) -> Vec<Position> {
    positions.retain(|position| marks.contains_key(&position.partition));
    positions
}

/// The last commit of partitions that are given up.
pub(super) fn commit_and_wait(consumer: &BaseConsumer<Membership>, positions: Vec<Position>, marks: &Marks) {
    let positions = marked(positions, marks);
    if positions.is_empty() {
        return;
    }
    match Commit::start(consumer, positions.clone(), marks) {
        Ok(commit) => _ = consumer.context().account(&positions, commit.answer(COMMIT_WAIT)),
        Err(code) => _ = consumer.context().account(&positions, Some(vec![Err(code); positions.len()])),
    }
}

impl Membership {
    /// Counts and logs what became of a commit; returns what is committed. A failure is never
    /// fatal: the messages come again and meet their claims.
    pub(super) fn account(&self, positions: &[Position], answer: Option<Vec<Verdict>>) -> Vec<Position> {
        let Some(verdicts) = answer else {
            self.warn("offsets not committed: the brokers did not answer in time");
            counter!(telemetry::OFFSET_COMMITS, "outcome" => "unanswered").increment(1);
            return Vec::new();
        };
        let sorted = Sorted::of(positions, verdicts);
        if !sorted.failed.is_empty() {
            let failed = sorted.failed.join(", ");
            self.warn(&format!(
                "offsets not committed ({failed}): messages that are done will be delivered again and skipped"
            ));
        }
        if sorted.stale > 0 {
            debug!(
                partitions = sorted.stale,
                "offsets not committed: the group moved on, and the next owner skips what is done"
            );
        }
        counter!(telemetry::OFFSET_COMMITS, "outcome" => sorted.outcome()).increment(1);
        sorted.committed
    }

    fn warn(&self, text: &str) {
        if self.commits.due() {
            warn!("{text} (tried again; not said again for 30 s)");
        }
    }
}

/// A commit's positions by what became of them: one that is refused takes no other with it.
#[derive(Debug, Default)]
struct Sorted {
    committed: Vec<Position>,
    stale: usize,
    /// `topic orders, partition 3: why`.
    failed: Vec<String>,
}

impl Sorted {
    fn of(positions: &[Position], verdicts: Vec<Verdict>) -> Self {
        let mut sorted = Self::default();
        for (position, verdict) in positions.iter().zip(verdicts) {
            match verdict {
                Ok(()) => sorted.committed.push(position.clone()),
                Err(code) if faults::is_stale(code) => sorted.stale += 1,
                Err(code) => {
                    let Partition { topic, number } = &position.partition;
                    sorted.failed.push(format!("topic {topic}, partition {number}: {code}"));
                }
            }
        }
        sorted
    }

    fn outcome(&self) -> &'static str {
        match self {
            Self { failed, .. } if !failed.is_empty() => "failed",
            Self { stale: 1.., .. } => "stale",
            _ => "committed",
        }
    }
}

/// As librdkafka takes partitions.
pub(super) fn list<'a>(partitions: impl IntoIterator<Item = &'a Partition>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(&partition.topic, partition.number);
    }
    list
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if facility == "OFFSET" {
            self.state().suspect(text);
        }
        log::pass_on(level, facility, text);
    }

    // The error itself is returned by `poll`; only its text is lost there.
    fn error(&self, _: KafkaError, reason: &str) {
        self.state().said = reason.to_owned();
    }
}

impl ConsumerContext for Membership {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Revoke(list) if list.count() > 0 => self.revoked(consumer, &self.partitions(list)),
            Rebalance::Error(error) => warn!(%error, "rebalance failed; the client joins again"),
            _ => {}
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance
            && list.count() > 0
        {
            self.assigned(&self.partitions(list));
        }
    }
}

/// `orders/0 orders/1`
struct Listed<'a>(&'a [Partition]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, partition) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}/{}", partition.topic, partition.number)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode as Code;

    use super::*;

    #[test]
    fn a_reset_while_it_is_not_known_where_to_begin_is_not_forgotten() {
        let partition = Partition { topic: "orders".into(), number: 3 };
        let facts = Facts {
            partition: partition.clone(),
            committed: Some((7, String::new())),
            start: 5,
            end: None,
            topic_id: None,
            latest: false,
        };
        let mut state = State::default();
        state.owned.insert(partition.clone());
        state.facts.insert(partition.clone(), facts.clone());
        state.suspect("orders [3]: offset reset (at offset 7, broker 1) to offset 20");
        assert!(state.facts.is_empty(), "they are asked for again");
        state.begin(facts.clone(), Start { offset: 7, mark: "mark".into() });
        assert!(state.starts.is_empty() && state.reset.contains(&partition), "the log may start elsewhere now");
        state.doubt(&partition);
        state.begin(facts, Start { offset: 7, mark: "mark".into() });
        assert_eq!(state.starts.get(&partition), Some(&5));
    }

    #[test]
    fn a_position_in_doubt_is_not_committed() {
        let partition = |number| Partition { topic: "orders".into(), number };
        let mut state = State::default();
        for number in 0..2 {
            state.begun.insert(partition(number), Start { offset: 3, mark: "mark".into() });
        }
        state.doubt(&partition(0));
        let positions = (0..2).map(|number| Position { partition: partition(number), offset: 7 }).collect();
        let committed: Vec<i32> =
            marked(positions, &state.marks()).iter().map(|position| position.partition.number).collect();
        assert_eq!(committed, [1]);
    }

    #[test]
    fn a_partition_whose_commit_is_refused_takes_no_other_with_it() {
        let position = |number| Position { partition: Partition { topic: "orders".into(), number }, offset: 7 };
        let positions: Vec<Position> = (0..3).map(position).collect();
        let verdicts = vec![Ok(()), Err(Code::TopicAuthorizationFailed), Err(Code::IllegalGeneration)];
        let sorted = Sorted::of(&positions, verdicts);
        assert_eq!((sorted.committed.as_slice(), sorted.stale, sorted.outcome()), (&positions[..1], 1, "failed"));
        assert!(sorted.failed[0].contains("topic orders, partition 1"), "{sorted:?}");
        assert_eq!(Sorted::of(&positions, vec![Ok(()); 3]).outcome(), "committed");
    }
}
