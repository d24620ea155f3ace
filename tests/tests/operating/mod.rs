//! What a person on call does, on both databases.

pub mod jobs;
pub mod letters;
pub mod outbox;
