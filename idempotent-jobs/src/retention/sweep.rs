//! One round after the other: ask, wait until it is due, walk through the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::sleep;

use super::Retention;
use super::holdups::Holdups;
use super::rule::problems;
use super::terms::Terms;
use crate::kafka::{self, Properties, Stands};
use crate::store::{Begun, Purge, RetentionStore, StoreError, open_retention};
use crate::telemetry;

/// How long the brokers may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at a group that is to come to the ends that were noted.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Between two sweeps, unless the window says less.
const RESTS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3_600));

/// Of its time a sweep leaves so many parts to others for each one it takes.
const YIELD: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Purges the keys of a group.
pub struct Cleaner {
    store: Arc<dyn RetentionStore>,
    properties: Properties,
    topics: Vec<String>,
    retention: Retention,
    terms: Terms,
    holdups: Holdups,
}

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Keys are kept forever.
    Forever,
    /// The group is yet to read what lay in the topics; what it is to come to.
    Behind(String),
    /// Another cleaner of the database is at it, or was a short while ago.
    Others,
    /// The table was walked through.
    Swept(Swept),
}

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// How many keys went of each topic.
    pub purged: BTreeMap<String, u64>,
    /// When the oldest key was processed that stays of this group.
    pub oldest: Option<SystemTime>,
}

impl Cleaner {
    /// Opens the database.
    ///
    /// # Errors
    /// It cannot be used, or the role may not delete.
    pub async fn open(
        url: &str,
        properties: &Properties,
        topics: &[String],
        retention: Retention,
    ) -> Result<Self, StoreError> {
        let (properties, topics) = (properties.clone(), topics.to_vec());
        let (store, terms, holdups) = (open_retention(url).await?, Terms::default(), Holdups::default());
        Ok(Self { store, properties, topics, retention, terms, holdups })
    }

    /// What the database's clock says, or this machine's where that says less.
    ///
    /// # Errors
    /// The database is away.
    pub async fn now(&self) -> Result<SystemTime, StoreError> {
        Ok(self.store.now().await?.min(SystemTime::now()))
    }

    /// One round. Nothing is swept less than `rest` after the last sweep of the group.
    ///
    /// # Errors
    /// Says why nothing, or nothing more, was purged.
    pub async fn look(&mut self, now: SystemTime, rest: Duration) -> Result<Look, String> {
        let Some(window) = self.retention.limit() else { return Ok(Look::Forever) };
        self.check().await?;
        let group = self.properties.group_id().unwrap_or_default().to_owned();
        let told = |error: StoreError| error.to_string();
        // The order is the invariant's.
        let unsent = self.store.unsent(&self.topics).await.map_err(told)?;
        let stands = kafka::stands(&self.properties, &self.topics, PATIENCE).await.map_err(joined)?;
        let known = self.store.watermarks(&group, &self.topics).await.map_err(told)?;
        let mut stands = known_here(stands, &known);
        self.terms.note(now, window, &unsent, &stands);
        self.terms.remember(&mut stands);
        let in_hand = self.store.in_hand(&group, &self.topics).await.map_err(told)?;
        let in_hand = self.terms.with_queued(now, &stands, in_hand);
        let unsure = self.terms.unsure(&stands, &in_hand);
        if !unsure.is_empty() {
            let read = kafka::read_out(&self.properties, unsure, PATIENCE).await;
            stands.iter_mut().for_each(|(place, stand)| stand.read |= read.contains(place));
            self.terms.remember(&mut stands);
        }
        let due = self.terms.due(&stands, &in_hand);
        let unkeyed = self.store.unkeyed(&group, &self.topics, window).await.map_err(told)?;
        let behind = self.terms.waits_for(&stands, &in_hand);
        let held = |topic: &String| Some((topic.clone(), self.terms.held_back(topic, now, window, &unkeyed)?));
        self.holdups.note(Instant::now(), due.iter().filter_map(held).chain(behind.clone()).collect());
        if due.is_empty() {
            return Ok(Look::Behind(joined(behind.into_values().collect())));
        }
        let bounds = due.iter().flat_map(|topic| self.terms.bounds(topic, window, &unkeyed, &stands)).collect();
        let swept = walk(&*self.store, &Purge { group, bounds }, rest).await.map_err(told)?;
        due.iter().for_each(|topic| self.terms.swept(topic));
        Ok(swept.map_or(Look::Others, Look::Swept))
    }

    /// Whether the topics keep their messages so that the window is long enough.
    ///
    /// # Errors
    /// The sentences of all problems.
    async fn check(&self) -> Result<(), String> {
        let keeping = kafka::keeping(&self.properties, &self.topics, PATIENCE).await.map_err(joined)?;
        let problems = problems(&self.retention, &keeping);
        if problems.is_empty() { Ok(()) } else { Err(joined(problems)) }
    }
}

/// What Kafka says of the group, as far as the database says the same: one that lost history reads it again, and no key
/// of it may go before.
fn known_here(mut stands: Stands, known: &BTreeMap<(String, i32), i64>) -> Stands {
    for (place, stand) in &mut stands {
        let (said, known) = (stand.committed, known.get(place).copied());
        stand.committed = said.zip(known).map(|(committed, known)| committed.min(known));
        // It began behind all that lay there, and has nothing to commit.
        stand.read = said.is_none() && known.is_some_and(|known| known >= stand.end);
    }
    stands
}

fn joined(problems: Vec<String>) -> String {
    problems.join("; ")
}

/// Walks through the whole table; `None`: another cleaner does, or did less than `rest` ago.
///
/// # Errors
/// The database's. What went until then is gone.
pub async fn walk(store: &dyn RetentionStore, purge: &Purge, rest: Duration) -> Result<Option<Swept>, StoreError> {
    let Begun::Walk(mut walk) = store.begin(&purge.group, rest).await? else { return Ok(None) };
    let mut swept = Swept::default();
    loop {
        let began = Instant::now();
        let Some(step) = store.step(&mut walk, purge).await? else { return Ok(None) };
        for gone in &step.purged {
            metrics::counter!(telemetry::PURGED, "topic" => gone.topic.clone()).increment(gone.rows);
            *swept.purged.entry(gone.topic.clone()).or_default() += gone.rows;
        }
        swept.oldest = swept.oldest.into_iter().chain(step.oldest).min();
        if step.last {
            store.end(&purge.group).await?;
            return Ok(Some(swept));
        }
        sleep((began.elapsed() * YIELD).clamp(PAUSES.0, PAUSES.1)).await;
    }
}

/// Purges until it is dropped, and by a clock that goes ahead of the true one: in tests alone.
pub(crate) async fn clean(mut cleaner: Cleaner, ahead: Duration) {
    let Some(window) = cleaner.retention.limit() else { return std::future::pending().await };
    let rest = (window / 20).clamp(RESTS.0, RESTS.1);
    let mut look = LOOKS.0;
    loop {
        let began = Instant::now();
        let looked = match cleaner.now().await {
            Ok(now) => cleaner.look(now + ahead, rest).await,
            Err(error) => Err(error.to_string()),
        };
        let behind = matches!(looked, Ok(Look::Behind(_)));
        tell(looked);
        for (topic, why) in cleaner.holdups.overdue(Instant::now()) {
            tracing::warn!(topic, why, "no key is purged that could be, for an hour or longer");
        }
        look = if behind { (look * 2).min(LOOKS.1) } else { LOOKS.0 };
        // A sweep that takes long is not begun anew at once.
        sleep(if behind { look } else { rest.max(began.elapsed() * 4) }).await;
    }
}

fn tell(looked: Result<Look, String>) {
    match looked {
        Ok(Look::Swept(Swept { purged, oldest })) => {
            let age = oldest.and_then(|oldest| oldest.elapsed().ok()).unwrap_or_default();
            metrics::gauge!(telemetry::OLDEST_KEY_AGE).set(age.as_secs_f64());
            metrics::counter!(telemetry::SWEEPS).increment(1);
            let keys: u64 = purged.values().sum();
            if keys > 0 {
                tracing::info!(keys, oldest_age_s = age.as_secs(), "old keys were purged");
            } else {
                tracing::debug!(oldest_age_s = age.as_secs(), "no key is purged: none is old enough");
            }
        }
        Ok(Look::Behind(what)) => {
            tracing::debug!(what, "no key is purged before the group has read what lies before it")
        }
        Ok(Look::Forever | Look::Others) => {}
        Err(error) => tracing::warn!(error, "no key is purged: tried again in a while"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Stand;

    /// A copy was put back: what Kafka says was done, it does not have.
    #[test]
    fn ded_04_what_the_database_lost_is_not_taken_for_read() {
        let stand = |committed| Stand { start: 0, end: 100, committed, read: false };
        let place = |number| ("orders".to_owned(), number);
        let stands = Stands::from([
            (place(0), stand(Some(90))),
            (place(1), stand(Some(90))),
            (place(2), stand(Some(90))),
            (place(3), stand(None)),
            (place(4), stand(None)),
        ]);
        let known = BTreeMap::from([(place(0), 90), (place(1), 40), (place(3), 40), (place(4), 100)]);
        let known = known_here(stands, &known);
        let of = |number| (known[&place(number)].committed, known[&place(number)].read);
        assert_eq!([of(0), of(1), of(2)], [(Some(90), false), (Some(40), false), (None, false)]);
        assert_eq!([of(3), of(4)], [(None, false), (None, true)], "it began at the end");
    }
}
