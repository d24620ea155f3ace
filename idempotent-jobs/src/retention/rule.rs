//! Which windows are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Retention;
use crate::kafka::Keeping;

/// What is wrong with this retention for topics that keep messages so: a sentence for each, with the numbers.
pub fn problems(retention: &Retention, topics: &BTreeMap<String, Keeping>) -> Vec<String> {
    let Some(window) = retention.window else { return Vec::new() };
    topics.iter().filter_map(|(topic, keeping)| problem(window, retention.horizon, topic, keeping)).collect()
}

fn problem(window: Duration, horizon: Duration, topic: &str, keeping: &Keeping) -> Option<String> {
    let Keeping { policy, retention, segment } = keeping;
    let kept = |why: String| {
        Some(format!(
            "retention: topic `{topic}` {why}, so that its messages can come again after any time, and keys are to be kept \
             for {}: keep them forever, `Retention::forever()`, or change the topic",
            Ms(window.as_millis())
        ))
    };
    if policy.split(',').any(|word| word.trim() == "compact") {
        return kept(format!("is compacted (cleanup.policy={policy})"));
    }
    if policy.trim() != "delete" {
        return kept(format!("deletes no messages (cleanup.policy={policy})"));
    }
    let (Ok(retention), Ok(segment)) = (u64::try_from(*retention), u64::try_from(*segment)) else {
        return kept(format!("keeps messages without an end (retention.ms={retention}, segment.ms={segment})"));
    };
    let needed = u128::from(retention) + u128::from(segment) + horizon.as_millis();
    // A part of a millisecond does not make up for one.
    if window.as_millis() >= needed {
        return None;
    }
    Some(format!(
        "retention: keys are to be kept for {}, but a message of topic `{topic}` can come again for {}: retention.ms {} + \
         segment.ms {} + resend horizon {}. Give `Retention::window` at least that, shorten the topic's, or keep keys \
         forever, `Retention::forever()`",
        Ms(window.as_millis()),
        Ms(needed),
        Ms(retention.into()),
        Ms(segment.into()),
        Ms(horizon.as_millis()),
    ))
}

/// `3600000 ms (1 h)`
struct Ms(u128);

impl std::fmt::Display for Ms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ms", self.0)?;
        const UNITS: [(u128, &str); 3] = [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min")];
        match UNITS.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, "days")) if self.0 == *unit => write!(f, " (1 day)"),
            Some((unit, name)) => write!(f, " ({} {name})", self.0 / unit),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn of(retention: Retention, policy: &str, kept: i64, segment: i64) -> Vec<String> {
        let keeping = Keeping { policy: policy.to_owned(), retention: kept, segment };
        problems(&retention, &BTreeMap::from([("orders".to_owned(), keeping)]))
    }

    #[test]
    fn ded_04_a_window_as_long_as_messages_live_is_taken_and_one_millisecond_less_is_not() {
        let (kept, segment) = (3_600_000, 1_800_000);
        let needed = Duration::from_millis(3_600_000 + 1_800_000) + HOUR;
        let fits = Retention::window(needed).resend_horizon(HOUR);
        assert_eq!(of(fits, "delete", kept, segment), [""; 0]);
        for less in [Duration::from_millis(1), Duration::from_nanos(1)] {
            let short = Retention::window(needed - less).resend_horizon(HOUR);
            let [problem] = &of(short, "delete", kept, segment)[..] else { panic!("refused") };
            for part in [
                "`orders`",
                "8999999 ms",
                "9000000 ms (150 min)",
                "retention.ms 3600000 ms (1 h)",
                "segment.ms 1800000 ms (30 min)",
                "resend horizon 3600000 ms (1 h)",
            ] {
                assert!(problem.contains(part), "{part} in {problem}");
            }
        }
    }

    #[test]
    fn topics_whose_messages_never_end_are_refused_whatever_the_window() {
        let ages = Retention::window(Duration::MAX);
        for (policy, kept, word) in [
            ("compact", 1, "cleanup.policy=compact"),
            ("compact,delete", 1, "cleanup.policy=compact,delete"),
            ("delete, compact", 1, "is compacted"),
            ("", 1, "deletes no messages"),
            ("delete", -1, "retention.ms=-1"),
        ] {
            let [problem] = &of(ages, policy, kept, 1)[..] else { panic!("refused: {policy} {kept}") };
            assert!(problem.contains(word), "{word} in {problem}");
        }
    }

    #[test]
    fn forever_fits_every_topic_and_each_that_does_not_fit_is_named() {
        assert_eq!(of(Retention::forever(), "compact", -1, 1), [""; 0]);
        assert_eq!(of(Retention::default(), "compact", -1, 1), [""; 0]);
        let keeping = Keeping { policy: "delete".to_owned(), retention: 2_000, segment: 0 };
        let topics = ["a", "b"].map(|topic| (topic.to_owned(), keeping.clone()));
        assert_eq!(problems(&Retention::window(Duration::from_secs(1)), &BTreeMap::from(topics)).len(), 2);
        // Sums that no u64 holds.
        let long = Retention::window(Duration::MAX).resend_horizon(Duration::MAX);
        assert_eq!(of(long, "delete", i64::MAX, i64::MAX).len(), 1);
    }
}
