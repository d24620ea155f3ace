//! What holds up the purge of each topic, and when a person is told. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// After so long a person is told, and then again.
pub const LONG: Duration = Duration::from_secs(3_600);

/// By topic.
#[derive(Debug, Default)]
pub struct Holdups(BTreeMap<String, Holdup>);

#[derive(Debug)]
struct Holdup {
    /// Since when the topic is held up, or when that was told last.
    since: Instant,
    why: String,
}

impl Holdups {
    /// What holds topics up now, each with its reason; all others go on.
    pub fn note(&mut self, now: Instant, found: BTreeMap<String, String>) {
        self.0.retain(|topic, _| found.contains_key(topic));
        for (topic, why) in found {
            self.0.entry(topic).or_insert_with(|| Holdup { since: now, why: String::new() }).why = why;
        }
    }

    /// Topics that are to be told of now, with what holds them up.
    pub fn overdue(&mut self, now: Instant) -> Vec<(String, String)> {
        let long = self.0.iter_mut().filter(|(_, holdup)| now.duration_since(holdup.since) >= LONG);
        long.map(|(topic, holdup)| {
            holdup.since = now;
            (topic.clone(), holdup.why.clone())
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, String> {
        all.map(|(topic, why)| (topic.to_owned(), why.to_owned())).into()
    }

    #[test]
    fn each_topic_that_is_held_up_for_long_is_told_of_whatever_others_do() {
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let mut holdups = Holdups::default();
        holdups.note(start, found([("stuck", "at 5"), ("slow", "at 7")]));
        assert_eq!(holdups.overdue(start + LONG - minute), []);
        holdups.note(start + LONG, found([("stuck", "at 6")]));
        let told = [("stuck".to_owned(), "at 6".to_owned())];
        assert_eq!(holdups.overdue(start + LONG), told, "what holds it up by now");
        holdups.note(start + LONG, found([("stuck", "at 6"), ("slow", "at 8")]));
        assert_eq!(holdups.overdue(start + LONG + minute), [], "told a minute ago, or held up anew");
        assert_eq!(holdups.overdue(start + LONG + LONG).len(), 2);
    }
}
