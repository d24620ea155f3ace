//! The mark that workers leave beside a committed offset.
//!
//! A tool that sets a group's offset leaves none, so that a person's decision is told from a worker's
//! progress; and a database that has no row of the partition learns from it what it lost.

use std::fmt;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// Of the database's tables and their copies.
    pub lineage: String,
    /// Where the group began to read the partition.
    pub began: i64,
    pub topic_id: Option<String>,
}

const WORDS: [&str; 2] = ["idempotent-jobs", "1"];

impl Mark {
    /// `None`: somebody else's, or nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(WORDS[0])?.strip_prefix(' ')?.strip_prefix(WORDS[1])?.strip_prefix(' ')?;
        let mut parts = rest.split(' ');
        let (lineage, began, topic_id) = (parts.next()?, parts.next()?, parts.next()?);
        let topic_id = Some(topic_id.to_owned()).filter(|id| id != "-");
        Some(Self { lineage: lineage.to_owned(), began: began.parse().ok()?, topic_id })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic_id = self.topic_id.as_deref().unwrap_or("-");
        write!(f, "{} {} {} {} {topic_id}", WORDS[0], WORDS[1], self.lineage, self.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_nothing_else_is_one() {
        for topic_id in [None, Some("a-_".to_owned())] {
            let mark = Mark { lineage: "2026-11-30T18:00:00.000Z".into(), began: -1, topic_id };
            assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        }
        for text in ["", "idempotent-jobs", "idempotent-jobs 2 a 0 -", "idempotent-jobs 1 a", "idempotent-jobs 1 a x -"]
        {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }
}
