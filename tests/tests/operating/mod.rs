//! What a person on call does, on both databases.

pub mod doctor;
pub mod health;
pub mod jobs;
pub mod letters;
pub mod outbox;
pub mod parked;
pub mod status;
pub mod trace;
