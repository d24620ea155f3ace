//! What is known of a worker, and what follows. Pure; times are passed in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Notice, Symptom};

/// A consumer polls every 50 ms, and while brokers do not answer every few seconds.
const SILENT: Duration = Duration::from_secs(15);
/// One that has not for so long will not again.
const HUNG: Duration = Duration::from_secs(60);
/// A database that does not answer for so long is away, and not in a failover that is over at once.
const AWAY: Duration = Duration::from_secs(5);
/// Attempts that stumble in a row: one that does is no symptom.
const STUMBLES: u32 = 10;
/// Offsets are committed twice a second.
const UNCOMMITTED: Duration = Duration::from_secs(30);
/// A record that waits for so long is not being sent.
const BEHIND: Duration = Duration::from_secs(60);
/// Each start has a moment without the brokers' first answer.
const CUT_OFF: Duration = Duration::from_secs(15);

/// A partition of a topic.
type At = (Arc<str>, i32);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    #[default]
    Starting,
    Running,
    Stopping,
    Ended,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    phase: Phase,
    pub(super) polled: Option<Instant>,
    pub(super) member: bool,
    /// Since when the database has not answered.
    away: Option<Instant>,
    /// The offset that each partition is held up at.
    pub(super) held_up: BTreeMap<At, i64>,
    /// Since when each partition has had something to commit.
    pub(super) uncommitted: BTreeMap<At, Instant>,
    /// Lanes that take in no more, by their jobs, and how many messages wait in each.
    pub(super) full: BTreeMap<(At, &'static str, [u8; 32]), u32>,
    /// Why partitions may not be read.
    pub(super) refused: BTreeMap<At, String>,
    /// The latest of each word.
    pub(super) notices: BTreeMap<(String, i32, &'static str), Notice>,
    /// Since when the relay has not reached the brokers.
    cut_off: Option<Instant>,
    /// The age of the relay's oldest record, and when that was looked at.
    pub(super) backlog: Option<(Duration, Instant)>,
}

impl Vitals {
    /// A worker that ended or is ending does not begin again.
    pub(super) fn enter(&mut self, phase: Phase) {
        if phase > self.phase {
            self.phase = phase;
        }
    }

    pub(super) fn start(&mut self, now: Instant) {
        self.enter(Phase::Running);
        self.polled.get_or_insert(now);
    }

    pub(super) fn gone<'a>(&mut self, partitions: impl Iterator<Item = (&'a Arc<str>, i32)>) {
        for (topic, partition) in partitions {
            let at = (Arc::clone(topic), partition);
            self.held_up.remove(&at);
            self.uncommitted.remove(&at);
            self.full.retain(|(of, ..), _| *of != at);
        }
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.insert((notice.topic.clone(), notice.partition, notice.finding), notice);
    }

    /// Why partitions were not read: they end the worker, which then says why.
    fn refusals(&self) -> impl Iterator<Item = Symptom> {
        self.refused.iter().map(|((topic, partition), why)| Symptom::MissingKeys {
            topic: topic.to_string(),
            partition: *partition,
            why: why.clone(),
        })
    }

    pub(super) fn database(&mut self, answered: bool, now: Instant) {
        self.away = if answered { None } else { Some(self.away.unwrap_or(now)) };
    }

    pub(super) fn relay_reaches(&mut self, reaches: bool, now: Instant) {
        self.cut_off = if reaches { None } else { Some(self.cut_off.unwrap_or(now)) };
    }

    pub(super) fn waits_for_commit<'a>(&mut self, partitions: impl Iterator<Item = (&'a Arc<str>, i32)>, now: Instant) {
        let before = std::mem::take(&mut self.uncommitted);
        let since = |at: At| {
            let since = before.get(&at).copied().unwrap_or(now);
            (at, since)
        };
        self.uncommitted = partitions.map(|(topic, partition)| since((Arc::clone(topic), partition))).collect();
    }

    /// What a restart may mend.
    pub(super) fn fatal(&self, now: Instant) -> Vec<Symptom> {
        if self.phase == Phase::Ended {
            return vec![Symptom::Ended];
        }
        self.silence(now, HUNG).map(Symptom::NotPolling).into_iter().collect()
    }

    /// What keeps it from its work.
    pub(super) fn symptoms(&self, now: Instant, stumbles: u32) -> Vec<Symptom> {
        match self.phase {
            Phase::Starting => return vec![Symptom::Starting],
            Phase::Ended => return [Symptom::Ended].into_iter().chain(self.refusals()).collect(),
            Phase::Stopping => return [Symptom::Stopping].into_iter().chain(self.refusals()).collect(),
            Phase::Running => {}
        }
        let mut symptoms: Vec<Symptom> = self.silence(now, SILENT).map(Symptom::NotPolling).into_iter().collect();
        symptoms.extend((!self.member).then_some(Symptom::NoAssignment));
        symptoms.extend(long(self.away, now, AWAY).map(Symptom::DatabaseAway));
        symptoms.extend((stumbles >= STUMBLES).then_some(Symptom::Stumbling(stumbles)));
        symptoms.extend(self.held_up.iter().map(|((topic, partition), offset)| Symptom::HeldUp {
            topic: topic.to_string(),
            partition: *partition,
            offset: *offset,
        }));
        symptoms.extend(self.uncommitted.iter().filter_map(|((topic, partition), since)| {
            let age = long(Some(*since), now, UNCOMMITTED)?;
            Some(Symptom::Uncommitted { topic: topic.to_string(), partition: *partition, age })
        }));
        symptoms.extend(self.full.iter().map(|(((topic, partition), job, _), waiting)| Symptom::LaneFull {
            job,
            topic: topic.to_string(),
            partition: *partition,
            waiting: *waiting,
        }));
        symptoms.extend(self.refusals());
        symptoms.extend(long(self.cut_off, now, CUT_OFF).map(Symptom::RelayCutOff));
        let backlog = self.backlog.map(|(age, looked)| age + now.saturating_duration_since(looked));
        symptoms.extend(backlog.filter(|age| *age >= BEHIND).map(Symptom::RelayBehind));
        symptoms
    }

    /// While it ends it waits for running jobs, for as long as it was told.
    fn silence(&self, now: Instant, limit: Duration) -> Option<Duration> {
        if self.phase == Phase::Running { long(self.polled, now, limit) } else { None }
    }
}

/// How long ago, if that is too long.
fn long(since: Option<Instant>, now: Instant, limit: Duration) -> Option<Duration> {
    since.map(|since| now.saturating_duration_since(since)).filter(|time| *time >= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn running(now: Instant) -> Vitals {
        let mut vitals = Vitals { member: true, ..Vitals::default() };
        vitals.start(now);
        vitals
    }

    fn words(vitals: &Vitals, now: Instant) -> Vec<&'static str> {
        vitals.symptoms(now, 0).iter().map(Symptom::as_str).collect()
    }

    #[test]
    fn a_worker_is_ready_between_its_start_and_its_end() {
        let now = Instant::now();
        let mut vitals = Vitals::default();
        assert_eq!((words(&vitals, now), vitals.fatal(now)), (vec!["starting"], vec![]));
        vitals.start(now);
        assert_eq!(words(&vitals, now), ["no_assignment"]);
        vitals.member = true;
        assert_eq!(words(&vitals, now), [""; 0]);
        vitals.enter(Phase::Stopping);
        assert_eq!((words(&vitals, now + s(100)), vitals.fatal(now + s(100))), (vec!["stopping"], vec![]));
        vitals.enter(Phase::Ended);
        vitals.start(now);
        assert_eq!((words(&vitals, now), vitals.fatal(now)), (vec!["ended"], vec![Symptom::Ended]));
    }

    #[test]
    fn a_consumer_that_hangs_is_not_ready_and_later_not_alive() {
        let now = Instant::now();
        let vitals = running(now);
        assert_eq!((words(&vitals, now + s(14)), vitals.fatal(now + s(14))), (vec![], vec![]));
        assert_eq!((words(&vitals, now + s(15)), vitals.fatal(now + s(15))), (vec!["not_polling"], vec![]));
        assert_eq!(vitals.fatal(now + s(60)), [Symptom::NotPolling(s(60))]);
    }

    #[test]
    fn a_database_that_is_away_is_no_reason_to_restart() {
        let now = Instant::now();
        let mut vitals = running(now);
        vitals.database(false, now);
        vitals.database(false, now + s(4));
        vitals.polled = Some(now + s(5));
        assert_eq!(vitals.symptoms(now + s(5), 10), [Symptom::DatabaseAway(s(5)), Symptom::Stumbling(10)]);
        assert_eq!(vitals.fatal(now + s(5)), []);
        vitals.database(true, now + s(6));
        assert_eq!(words(&vitals, now + s(6)), [""; 0]);
    }

    #[test]
    fn con_22_a_growing_age_of_the_last_commit_is_a_symptom() {
        let now = Instant::now();
        let mut vitals = running(now);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        vitals.waits_for_commit([(&a, 0), (&b, 1)].into_iter(), now);
        vitals.waits_for_commit([(&a, 0), (&b, 1)].into_iter(), now + s(20));
        vitals.uncommitted.remove(&(Arc::clone(&b), 1));
        vitals.waits_for_commit([(&a, 0), (&b, 1)].into_iter(), now + s(25));
        vitals.polled = Some(now + s(30));
        let stuck = Symptom::Uncommitted { topic: "a".into(), partition: 0, age: s(30) };
        assert_eq!(vitals.symptoms(now + s(30), 0), [stuck]);
        vitals.gone([(&a, 0)].into_iter());
        assert_eq!(words(&vitals, now + s(30)), [""; 0], "it is another's now");
    }

    #[test]
    fn a_full_lane_is_a_symptom_until_it_is_let_go_or_is_another_s() {
        let now = Instant::now();
        let mut vitals = running(now);
        let a: Arc<str> = "a".into();
        vitals.full.insert(((Arc::clone(&a), 3), "charge", [1; 32]), 1_000);
        vitals.full.insert(((Arc::clone(&a), 4), "charge", [1; 32]), 7);
        let told = vitals.symptoms(now, 0);
        assert_eq!(told.len(), 2);
        assert!(told[0].to_string().contains("partition 3: 1000 messages of a lane of job charge"), "{told:?}");
        vitals.gone([(&a, 3)].into_iter());
        assert_eq!(words(&vitals, now), ["lane_full"]);
        assert_eq!(vitals.fatal(now), []);
    }

    #[test]
    fn a_finding_that_stops_a_partition_is_a_symptom_and_another_one_a_notice() {
        let now = Instant::now();
        let mut vitals = running(now);
        let notice = |what: &str| Notice {
            at: std::time::SystemTime::UNIX_EPOCH,
            topic: "a".into(),
            partition: 0,
            finding: "lost_history",
            what: what.into(),
        };
        vitals.notice(notice("from 1 to 2"));
        vitals.notice(notice("from 3 to 4"));
        assert_eq!(words(&vitals, now), [""; 0]);
        assert_eq!(vitals.notices.into_values().collect::<Vec<_>>(), [notice("from 3 to 4")]);
        let mut vitals = running(now);
        vitals.refused.insert(("a".into(), 0), "keys below 7 were purged".into());
        assert_eq!(words(&vitals, now), ["missing_keys"]);
        vitals.enter(Phase::Ended);
        assert_eq!(words(&vitals, now), ["ended", "missing_keys"]);
    }

    #[test]
    fn a_message_that_is_stuck_and_a_relay_that_does_not_send_are_symptoms() {
        let now = Instant::now();
        let mut vitals = running(now);
        vitals.held_up.insert(("a".into(), 3), 17);
        vitals.relay_reaches(false, now);
        vitals.backlog = Some((s(50), now));
        vitals.polled = Some(now + s(15));
        let told: Vec<String> = vitals.symptoms(now + s(15), 0).iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 3);
        assert!(told[0].contains("offset 17") && told[1].contains("15 s") && told[2].contains("65 s"), "{told:?}");
    }
}
