//! Messages that die, end to end. What does not depend on the database is played on both.

pub mod copies;
pub mod jobs;
pub mod kills;
pub mod poison;
