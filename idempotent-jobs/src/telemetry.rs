//! Names of spans, fields and metrics. One word a thing, the same in code, SQL and docs.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `idempotent_jobs_outcomes_total` | counter | `job`, `topic`, `outcome` | settled and failed attempts; `outcome` is `done`, `duplicate`, `unverified`, `retry`, `transient`, `dead` |
//! | `idempotent_jobs_attempt_seconds` | histogram | `job`, `topic`, `outcome` | an attempt from decoding to the answer of commit |
//! | `idempotent_jobs_commits_total` | counter | `result` | offset commits; `result` is `ok`, `dropped` (the group moved on), `failed` |
//! | `idempotent_jobs_assigned_partitions` | gauge | – | partitions this process owns |
//! | `idempotent_jobs_paused_partitions` | gauge | – | partitions paused because their lane is full |
//!
//! | span | fields |
//! |---|---|
//! | `job` | `job`, `topic`, `partition`, `offset`, `attempt`, `key_hash`, `outcome` |
//!
//! Keys appear as `key_hash`, the first 8 bytes of their SHA-256 in hex; payloads and header
//! values never appear.

/// Settled and failed attempts, by `job`, `topic` and `outcome`.
pub const OUTCOMES: &str = "idempotent_jobs_outcomes_total";
/// Seconds of an attempt, by `job`, `topic` and `outcome`.
pub const ATTEMPT_SECONDS: &str = "idempotent_jobs_attempt_seconds";
/// Offset commits, by `result`.
pub const COMMITS: &str = "idempotent_jobs_commits_total";
/// Partitions this process owns.
pub const ASSIGNED: &str = "idempotent_jobs_assigned_partitions";
/// Partitions paused because their lane is full.
pub const PAUSED: &str = "idempotent_jobs_paused_partitions";
