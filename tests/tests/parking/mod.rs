//! Lanes that are parked, end to end. What does not depend on the database is played on both.

pub mod asleep;
pub mod bounds;
pub mod jobs;
pub mod kills;
pub mod order;
pub mod owners;
pub mod scene;
