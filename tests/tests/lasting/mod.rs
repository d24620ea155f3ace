//! Attempts that outlive their process, and messages that kill theirs. What does not depend on the database is
//! played on both.

pub mod counts;
pub mod killers;
