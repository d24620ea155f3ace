//! Names of spans, fields and metrics. One word a thing, the same in code, SQL and docs.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `idempotent_jobs_outcomes_total` | counter | `job`, `topic`, `outcome` | settled and failed attempts; `outcome` is `done`, `duplicate`, `unverified`, `dead_before` (a dead letter came again), `discarded`, `snoozed`, `retry`, `transient`, `dead`; of what is skipped as declared `conflict`, `tombstone`, `unknown_event` |
//! | `idempotent_jobs_attempt_seconds` | histogram | `job`, `topic`, `outcome` | an attempt from decoding to the answer of commit; of messages that are handled together, the time of all of them |
//! | `idempotent_jobs_offset_commits_total` | counter | `outcome` | offset commits; `outcome` is `committed`, `stale` (the group moved on), `failed`, `unanswered` |
//! | `idempotent_jobs_dead_letters_total` | counter | `job`, `topic`, `reason` | dead letters that were written; `job` is `-` where no job takes the event |
//! | `idempotent_jobs_dead_letter_failures_total` | counter | `job`, `topic` | dead letters that could not be written: their messages wait |
//! | `idempotent_jobs_redrives_total` | counter | `job`, `outcome` | dead letters that were run again; `outcome` is `redriven`, `duplicate`, `dead`, `transient`, `snoozed` |
//! | `idempotent_jobs_undone_total` | counter | `job`, `topic` | transactions of several messages that were undone, whose messages ran one by one |
//! | `idempotent_jobs_held_up_total` | counter | `topic`, `partition` | pauses of a partition because one message does not get done |
//! | `idempotent_jobs_assigned_partitions` | gauge | – | partitions this process owns |
//!
//! | span | fields |
//! |---|---|
//! | `job` | `job`, `topic`, `partition`, `offset`, `attempt`, `key_hash`, `outcome` |
//! | `redrive` | `job`, `topic`, `letter`, `outcome`: a dead letter that is run again |
//! | `batch` | `job`, `topic`, `messages`: the handler of a batch job |
//!
//! Keys appear as `key_hash`, the first 8 bytes of their SHA-256 in hex; payloads and header
//! values never appear.

pub use crate::trace::{AlreadySet, set_propagator};

/// Settled and failed attempts, by `job`, `topic` and `outcome`.
pub const OUTCOMES: &str = "idempotent_jobs_outcomes_total";
/// Seconds of an attempt, by `job`, `topic` and `outcome`.
pub const ATTEMPT_SECONDS: &str = "idempotent_jobs_attempt_seconds";
/// Offset commits, by `outcome`.
pub const OFFSET_COMMITS: &str = "idempotent_jobs_offset_commits_total";
/// Dead letters that were written, by `job`, `topic` and `reason`.
pub const DEAD_LETTERS: &str = "idempotent_jobs_dead_letters_total";
/// Dead letters that could not be written, by `job` and `topic`.
pub const UNBURIED: &str = "idempotent_jobs_dead_letter_failures_total";
/// Dead letters that were run again, by `job` and `outcome`.
pub const REDRIVES: &str = "idempotent_jobs_redrives_total";
/// Transactions of several messages that were undone, by `job` and `topic`.
pub const UNDONE: &str = "idempotent_jobs_undone_total";
/// Pauses of a partition because one message does not get done, by `topic` and `partition`.
pub const HELD_UP: &str = "idempotent_jobs_held_up_total";
/// Partitions this process owns.
pub const ASSIGNED: &str = "idempotent_jobs_assigned_partitions";
