//! The consumer's thread: polls, hands over, commits what is settled, leaves when told.

mod begin;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _};
use tracing::{error, info, warn};

use super::consumer::{Settings, Stop};
use super::faults::{self, Fault};
use super::log::Sparing;
use super::membership::{Membership, commit_and_wait, list, marked};
use super::native::{self, Commit, Verdict};
use super::{Partition, Position, Room, after, gaps};
use crate::error::Error;
use crate::message::{Coordinates, Headers, Message};

/// The longest sleep when nothing comes; a pause to be ended is looked for more often.
const IDLE: Duration = Duration::from_millis(50);
const WHILE_PAUSED: Duration = Duration::from_millis(5);
/// Messages handed over before commits and pauses have their turn.
const BURST: usize = 256;
/// After this an unanswered commit is given up; the next interval sends the newest positions.
const COMMIT_GIVEN_UP: Duration = Duration::from_secs(30);
/// How long looks at the brokers may keep the thread from polling, each time.
const LOOK: Duration = Duration::from_millis(1_500);
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// What a look takes beside the fetch that it waits behind at the broker.
const BESIDE_FETCH: Duration = Duration::from_millis(250);
/// Between two resumes of everything that flows: librdkafka drops a resume that crosses a pause of
/// its own at the start of a rebalance, and such a partition would stay paused.
const RESUME_AGAIN: Duration = Duration::from_secs(2);
/// How often the intake is told whether the group counts on it.
const BETWEEN_TELLINGS: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// The thread's own state. The commit on its way is dropped before the consumer it belongs to.
pub(super) struct Poller {
    commit: Option<Sent>,
    /// What is settled was to be recorded, and is yet to be committed.
    due: bool,
    consumer: BaseConsumer<Membership>,
    settings: Settings,
    stop: Arc<Stop>,
    next_commit: Instant,
    next_resume: Instant,
    next_telling: Instant,
    topics: Vec<String>,
    /// Half of it is more than a fetch may wait at the broker.
    look: Duration,
    /// Whether partitions without a position are read from their ends.
    latest: bool,
    later: gaps::Later,
    /// Since when some topic is said to be unknown, when to ask again, and librdkafka's words.
    missing: Option<(Instant, Instant, String)>,
    trouble: Sparing,
}

struct Sent {
    commit: Commit,
    at: Instant,
    rebalances: u64,
}

impl Poller {
    pub(super) fn new(
        consumer: BaseConsumer<Membership>,
        settings: Settings,
        topics: &[String],
        stop: Arc<Stop>,
        fetch_wait: Duration,
        latest: bool,
    ) -> Self {
        let look = (2 * (fetch_wait + BESIDE_FETCH)).clamp(LOOK, LONGEST_LOOK);
        Self {
            commit: None,
            due: false,
            consumer,
            settings,
            stop,
            next_commit: Instant::now(),
            next_resume: Instant::now(),
            next_telling: Instant::now(),
            topics: topics.to_vec(),
            look,
            latest,
            later: gaps::Later::default(),
            missing: None,
            trouble: Sparing::new(Duration::from_secs(30)),
        }
    }

    pub(super) fn run(mut self) {
        let deadline = loop {
            if let Some(deadline) = self.stop.deadline() {
                break deadline;
            }
            self.receive();
            self.membership().intake.polled();
            self.begin();
            self.membership().intake.polled();
            self.look_for_missing();
            self.membership().intake.polled();
            self.tell_membership();
            self.relieve();
            self.resume_again();
            self.commit_settled();
        };
        self.leave(deadline);
    }

    fn membership(&self) -> &Membership {
        self.consumer.context()
    }

    fn tell_membership(&mut self) {
        if Instant::now() >= self.next_telling {
            self.next_telling = after(BETWEEN_TELLINGS);
            self.membership().intake.member(native::is_member(self.consumer.client().native_ptr()));
        }
    }

    fn receive(&mut self) {
        let mut wait = if self.membership().state().paused.is_empty() { IDLE } else { WHILE_PAUSED };
        for _ in 0..BURST {
            match self.consumer.poll(wait) {
                Some(Ok(message)) => self.accept(self.copy(&message)),
                Some(Err(error)) => {
                    self.trouble(&error);
                }
                None => break,
            }
            wait = Duration::ZERO;
        }
    }

    /// The message, owned: librdkafka's buffers are free for the next fetch.
    fn copy(&self, message: &BorrowedMessage<'_>) -> Message {
        let Partition { topic, number } = self.membership().state().partition(message.topic(), message.partition());
        Message {
            coordinates: Coordinates { topic, partition: number, offset: message.offset() },
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: Headers::new(native::headers(message)),
            timestamp: message.timestamp().to_millis(),
        }
    }

    fn accept(&self, message: Message) {
        let partition = {
            let mut state = self.membership().state();
            let partition = state.partition(&message.coordinates.topic, message.coordinates.partition);
            if state.halted || !state.owned.contains(&partition) {
                return;
            }
            if state.unchecked.contains(&partition) {
                state.held.push(message);
                let first = state.holding.insert(partition.clone());
                drop(state);
                return if first {
                    self.ask_to_pause(&partition)
                };
            }
            state.next.insert(partition.clone(), message.coordinates.offset + 1);
            partition
        };
        if self.membership().intake.accept(message) == Room::Full {
            self.pause(partition);
        }
    }

    fn pause(&self, partition: Partition) {
        if self.membership().state().paused.insert(partition.clone()) {
            self.ask_to_pause(&partition);
        }
    }

    fn ask_to_pause(&self, partition: &Partition) {
        if let Err(error) = self.consumer.pause(&list([partition])) {
            warn!(%error, topic = %partition.topic, partition = partition.number, "could not be paused; its messages are kept in memory");
        }
    }

    fn relieve(&self) {
        let mut relieved = self.membership().intake.relieved();
        relieved.retain(|partition| self.membership().state().paused.remove(partition));
        self.resume(&relieved);
    }

    /// A partition that is not paused is left alone by librdkafka, at no cost.
    fn resume_again(&mut self) {
        if Instant::now() < self.next_resume {
            return;
        }
        self.next_resume = after(RESUME_AGAIN);
        let flowing = self.membership().state().flowing();
        if !flowing.is_empty()
            && let Err(error) = self.consumer.resume(&list(&flowing))
        {
            warn!(%error, "partitions could not be resumed; tried again");
        }
    }

    fn resume(&self, partitions: &[Partition]) {
        if partitions.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.resume(&list(partitions)) {
            warn!(%error, "paused partitions could not be resumed; tried again");
        }
    }

    /// librdkafka names an unknown topic once; whether it is back, the brokers have to be asked.
    fn look_for_missing(&mut self) {
        let Some((since, next, text)) = self.missing.take() else { return };
        let now = Instant::now();
        if now < next || since.elapsed() < self.settings.missing_budget {
            self.missing = Some((since, next, text));
            return;
        }
        let answers: Vec<Fault> = (self.topics.iter())
            .take_while(|_| now.elapsed() < LOOK)
            .map(|topic| missing(&self.consumer, topic, LOOK))
            .collect();
        if let Some(index) = answers.iter().position(|fault| *fault == Fault::Missing) {
            return self.fail(format!("topic {}: {text}: {}", self.topics[index], faults::MISSING));
        }
        if answers.len() < self.topics.len() || answers.iter().any(|fault| *fault != Fault::Nothing) {
            // The next time it begins with those for which there was no time.
            let asked = answers.len() % self.topics.len().max(1);
            self.topics.rotate_left(asked);
            self.missing = Some((since, now + BETWEEN_LOOKS, text));
        }
    }

    /// One commit at a time, of the newest positions; the poll loop never waits for its answer.
    fn commit_settled(&mut self) {
        if let Some(sent) = self.commit.take() {
            match sent.commit.answer(Duration::ZERO) {
                None if sent.at.elapsed() < COMMIT_GIVEN_UP => return self.commit = Some(sent),
                answer => self.conclude(&sent, answer),
            }
        }
        if Instant::now() >= self.next_commit {
            self.next_commit = after(self.settings.commit_interval);
            self.membership().intake.record();
            self.due = true;
        }
        if !self.due {
            return;
        }
        let settled = self.membership().intake.settled();
        let (positions, rebalances, marks): (Vec<Position>, u64, _) = {
            let state = self.membership().state();
            let marks = state.marks();
            (marked(settled, &marks), state.rebalances, marks)
        };
        if positions.is_empty() {
            return;
        }
        self.due = false;
        match Commit::start(&self.consumer, positions.clone(), &marks) {
            Ok(commit) => self.commit = Some(Sent { commit, at: Instant::now(), rebalances }),
            Err(code) => _ = self.membership().account(&positions, Some(vec![Err(code); positions.len()])),
        }
    }

    fn conclude(&self, sent: &Sent, answer: Option<Vec<Verdict>>) {
        let committed = self.membership().account(&sent.commit.positions, answer);
        if !committed.is_empty() && self.membership().state().rebalances == sent.rebalances {
            self.membership().intake.committed(&committed);
        }
    }

    fn trouble(&mut self, error: &KafkaError) {
        let said = std::mem::take(&mut self.membership().state().said);
        let text = if said.is_empty() { error.to_string() } else { said };
        match faults::of_poll(error) {
            Fault::Nothing => {}
            Fault::Slept => error!(
                "the group took the partitions back since nothing polled for `max.poll.interval.ms`; joining again ({text})"
            ),
            Fault::Passing if self.trouble.due() => {
                warn!("Kafka: {text}; going on (the same is not said again for 30 s)")
            }
            Fault::Passing => {}
            Fault::Missing => {
                warn!("Kafka: {text}; going on for now, brokers say so while they restart");
                let now = Instant::now();
                self.missing.get_or_insert((now, now, text));
            }
            Fault::Lasting(advice) => {
                self.fail(format!("{text}: {advice} ({})", self.membership().state().positions()))
            }
        }
    }

    /// Reports once; from here on nothing is accepted, so that nothing behind a hole is committed.
    fn fail(&self, text: String) {
        let halted = std::mem::replace(&mut self.membership().state().halted, true);
        if !halted {
            self.membership().intake.failed(Error::Kafka(text));
        }
    }

    fn leave(mut self, deadline: Instant) {
        let (owned, marks): (Vec<Partition>, _) = {
            let mut state = self.membership().state();
            state.halted = true;
            state.leaving = true;
            (state.owned.iter().cloned().collect(), state.marks())
        };
        if !owned.is_empty() {
            let positions = self.membership().intake.revoked(&owned, deadline);
            self.commit = None;
            commit_and_wait(&self.consumer, positions, &marks);
        }
        // Dropping it leaves the group and waits for that: here nobody else waits with it.
        let began = Instant::now();
        drop(self);
        info!(took = ?began.elapsed(), "left the consumer group");
    }
}

/// Whether the brokers know a topic.
fn missing(consumer: &BaseConsumer<Membership>, topic: &str, timeout: Duration) -> Fault {
    match consumer.fetch_metadata(Some(topic), timeout) {
        Ok(answer) => match answer.topics().first().and_then(|topic| topic.error()) {
            Some(code) => faults::of_poll(&KafkaError::Global(code.into())),
            None => Fault::Nothing,
        },
        Err(_) => Fault::Passing,
    }
}
