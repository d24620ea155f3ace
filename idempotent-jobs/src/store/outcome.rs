//! What a claim that found its key taken means.

use super::{Claim, Claimed};
use crate::fingerprint::{Comparison, compare};

/// The row that holds a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Whether its message died, and is a dead letter.
    pub(super) dead: bool,
    pub(super) fingerprint: Vec<u8>,
    pub(super) scheme: String,
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// Judges a claim by the row in its way.
///
/// The coordinates decide only where fingerprints cannot be compared. A message does not change,
/// so another fingerprint of the same scheme at the same coordinates is another message: its
/// topic was made anew. A claim that died promises nothing to messages that cannot be compared with
/// it: to be skipped unverified, a message has to be done.
pub(super) fn judge(stored: Stored, claim: &Claim<'_>) -> Claimed {
    let same_message = stored.group == claim.group
        && stored.topic == *claim.at.topic
        && stored.partition == claim.at.partition
        && stored.offset == claim.at.offset;
    match compare((&claim.fingerprint, claim.scheme), (&stored.fingerprint, &stored.scheme)) {
        Comparison::Same if stored.dead => Claimed::Dead,
        Comparison::Same => Claimed::Duplicate,
        Comparison::Incomparable if same_message && stored.dead => Claimed::Dead,
        Comparison::Incomparable if same_message => Claimed::Duplicate,
        Comparison::Incomparable if !stored.dead => Claimed::Unverified,
        Comparison::Different | Comparison::Incomparable => {
            Claimed::Conflict { topic: stored.topic, partition: stored.partition, offset: stored.offset }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::key::{Key, KeyValue};
    use crate::message::Coordinates;

    fn stored(fingerprint: u8, scheme: &str, offset: i64) -> Stored {
        Stored {
            dead: false,
            fingerprint: vec![fingerprint; 32],
            scheme: scheme.into(),
            group: "g".into(),
            topic: "t".into(),
            partition: 0,
            offset,
        }
    }

    /// A claim of fingerprint 1, scheme `v1`, at offset 5.
    fn judged(stored: Stored) -> Claimed {
        let at = Coordinates { topic: "t".into(), partition: 0, offset: 5 };
        let key = Key::new([KeyValue::Uint(1)]);
        judge(
            stored,
            &Claim { job: "j", key: &key, fingerprint: Fingerprint([1; 32]), scheme: "v1", group: "g", at: &at },
        )
    }

    #[test]
    fn the_same_message_is_a_duplicate_also_when_compare_has_changed() {
        assert_eq!(judged(stored(1, "v1", 5)), Claimed::Duplicate);
        assert_eq!(judged(stored(2, "v1:a", 5)), Claimed::Duplicate);
    }

    #[test]
    fn ded_02_other_content_at_the_same_coordinates_of_a_topic_made_anew_is_a_conflict() {
        assert!(matches!(judged(stored(2, "v1", 5)), Claimed::Conflict { .. }));
    }

    #[test]
    fn another_message_with_the_same_content_is_a_duplicate() {
        assert_eq!(judged(stored(1, "v1", 4)), Claimed::Duplicate);
    }

    #[test]
    fn another_message_with_other_content_is_a_conflict() {
        assert_eq!(judged(stored(2, "v1", 4)), Claimed::Conflict { topic: "t".into(), partition: 0, offset: 4 });
        let elsewhere = Stored { group: "h".into(), ..stored(2, "v1", 5) };
        assert!(
            matches!(judged(elsewhere), Claimed::Conflict { .. }),
            "coordinates of another group are another message"
        );
    }

    #[test]
    fn fingerprints_of_different_schemes_are_not_compared() {
        assert_eq!(judged(stored(1, "v1:a", 4)), Claimed::Unverified);
        assert_eq!(judged(stored(2, "v1:a", 4)), Claimed::Unverified);
    }

    #[test]
    fn dlt_02_a_message_that_died_is_known_again_and_no_other_goes_with_it() {
        let dead = |fingerprint, scheme, offset| judged(Stored { dead: true, ..stored(fingerprint, scheme, offset) });
        assert_eq!(dead(1, "v1", 5), Claimed::Dead);
        assert_eq!(dead(1, "v1", 4), Claimed::Dead, "sent again");
        assert_eq!(dead(2, "v1:a", 5), Claimed::Dead, "the same message under another `compare`");
        assert!(matches!(dead(2, "v1", 4), Claimed::Conflict { .. }));
        assert!(matches!(dead(2, "v1:a", 4), Claimed::Conflict { .. }), "not skipped unverified: nobody did it");
    }
}
