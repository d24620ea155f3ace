//! Names of spans, fields and metrics. One word a thing, the same in code, SQL and docs.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `idempotent_jobs_outcomes_total` | counter | `job`, `topic`, `outcome` | settled and failed attempts; `outcome` is `done`, `duplicate`, `unverified`, `dead_before` (a dead letter came again), `parked`, `crowded` (its lane had no room), `discarded`, `snoozed`, `retry`, `transient`, `dead`; of what is skipped as declared `conflict`, `tombstone`, `unknown_event` |
//! | `idempotent_jobs_attempt_seconds` | histogram | `job`, `topic`, `outcome` | an attempt from decoding to the answer of commit; of messages that are handled together, the time of all of them |
//! | `idempotent_jobs_offset_commits_total` | counter | `outcome` | offset commits; `outcome` is `committed`, `stale` (the group moved on), `failed`, `unanswered` |
//! | `idempotent_jobs_findings_total` | counter | `topic`, `partition`, `finding` | what was found of a partition's offsets, at its assignment or later; `keys_purged` and `other_database` only with `OnMissingKeys::Report`, since otherwise the worker stops; `finding` is `lost_history`, `offset_missing`, `topic_recreated`, `moved_ahead`, `keys_purged`, `other_database` |
//! | `idempotent_jobs_dead_letters_total` | counter | `job`, `topic`, `reason` | dead letters that were written; `job` is `-` where no job takes the event |
//! | `idempotent_jobs_parked_total` | counter | `job`, `topic` | messages that were written to the database to wait behind a dead letter of their lane |
//! | `idempotent_jobs_lane_full_total` | counter | `job`, `topic` | times that a message found no room behind the dead letter of its lane, and waited in memory |
//! | `idempotent_jobs_dead_letter_failures_total` | counter | `job`, `topic` | dead letters that could not be written: their messages wait |
//! | `idempotent_jobs_redrives_total` | counter | `job`, `outcome` | dead letters that were run again; `outcome` is `redriven`, `duplicate`, `dead`, `retry` (of one that was parked), `transient`, `snoozed`, `waits` (behind a dead letter of its lane) |
//! | `idempotent_jobs_dead_owners_total` | counter | `topic` | partitions that were assigned after their last owner died |
//! | `idempotent_jobs_undone_total` | counter | `job`, `topic` | transactions of several messages that were undone, whose messages ran one by one |
//! | `idempotent_jobs_held_up_total` | counter | `topic`, `partition` | pauses of a partition because one message does not get done |
//! | `idempotent_jobs_assigned_partitions` | gauge | – | partitions this process owns |
//! | `idempotent_jobs_relay_sent_total` | counter | `topic` | outbox records that Kafka confirmed |
//! | `idempotent_jobs_relay_failures_total` | counter | `topic`, `kind` | records that were not delivered; `kind` is `trouble` (of the brokers or the way to them; sent again) or `refused` (costs an attempt) |
//! | `idempotent_jobs_relay_set_aside_total` | counter | `topic` | outbox records that were set aside: they wait for an operator |
//! | `idempotent_jobs_relay_lost_shards_total` | counter | – | parts of the outbox that another relay took over |
//! | `idempotent_jobs_relay_in_flight` | gauge | `relay` | records handed to Kafka and not confirmed yet |
//! | `idempotent_jobs_relay_shards` | gauge | `relay` | parts of the outbox this relay owns, of 32 |
//! | `idempotent_jobs_relay_backlog_age_seconds` | gauge | `relay` | age of the oldest record this relay has to send, 0 if it has none; looked at every 5 s |
//! | `idempotent_jobs_purged_total` | counter | `topic` | keys that were purged |
//! | `idempotent_jobs_sweeps_total` | counter | – | sweeps through the table of keys that came to their end |
//! | `idempotent_jobs_oldest_key_age_seconds` | gauge | – | age of the oldest key of this group when its last sweep by this process ended |
//!
//! `relay` is 0, unless several relays run in one process: they are numbered from 0, each by the lowest free number.
//!
//! | span | fields |
//! |---|---|
//! | `job` | `job`, `topic`, `partition`, `offset`, `attempt`, `key_hash`, `outcome` |
//! | `redrive` | `job`, `topic`, `letter`, `outcome`: a dead letter that is run again |
//! | `batch` | `job`, `topic`, `messages`: the handler of a batch job |
//! | `relay` | `relay`: its name in the table of relays |
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
/// What assignments found wrong, by `topic`, `partition` and `finding`.
pub const FINDINGS: &str = "idempotent_jobs_findings_total";
/// Dead letters that were written, by `job`, `topic` and `reason`.
pub const DEAD_LETTERS: &str = "idempotent_jobs_dead_letters_total";
/// Messages that wait in the database behind a dead letter of their lane, by `job` and `topic`.
pub const PARKED: &str = "idempotent_jobs_parked_total";
/// Times that a message found no room there, by `job` and `topic`.
pub const LANE_FULL: &str = "idempotent_jobs_lane_full_total";
/// Dead letters that could not be written, by `job` and `topic`.
pub const UNBURIED: &str = "idempotent_jobs_dead_letter_failures_total";
/// Partitions that were assigned after their last owner died, by `topic`.
pub const DEAD_OWNERS: &str = "idempotent_jobs_dead_owners_total";
/// Dead letters that were run again, by `job` and `outcome`.
pub const REDRIVES: &str = "idempotent_jobs_redrives_total";
/// Transactions of several messages that were undone, by `job` and `topic`.
pub const UNDONE: &str = "idempotent_jobs_undone_total";
/// Pauses of a partition because one message does not get done, by `topic` and `partition`.
pub const HELD_UP: &str = "idempotent_jobs_held_up_total";
/// Partitions this process owns.
pub const ASSIGNED: &str = "idempotent_jobs_assigned_partitions";
/// Outbox records that Kafka confirmed, by `topic`.
pub const RELAY_SENT: &str = "idempotent_jobs_relay_sent_total";
/// Outbox records that were not delivered, by `topic` and `kind`.
pub const RELAY_FAILURES: &str = "idempotent_jobs_relay_failures_total";
/// Outbox records that were set aside, by `topic`.
pub const RELAY_SET_ASIDE: &str = "idempotent_jobs_relay_set_aside_total";
/// Parts of the outbox that another relay took over.
pub const RELAY_LOST_SHARDS: &str = "idempotent_jobs_relay_lost_shards_total";
/// Records handed to Kafka and not confirmed yet.
pub const RELAY_IN_FLIGHT: &str = "idempotent_jobs_relay_in_flight";
/// Parts of the outbox this relay owns.
pub const RELAY_SHARDS: &str = "idempotent_jobs_relay_shards";
/// Age of the oldest record this relay has to send, in seconds.
pub const RELAY_BACKLOG_AGE: &str = "idempotent_jobs_relay_backlog_age_seconds";
/// Keys that were purged, by `topic`.
pub const PURGED: &str = "idempotent_jobs_purged_total";
/// Sweeps through the table of keys that came to their end.
pub const SWEEPS: &str = "idempotent_jobs_sweeps_total";
/// Age of the oldest key when the last sweep ended, in seconds.
pub const OLDEST_KEY_AGE: &str = "idempotent_jobs_oldest_key_age_seconds";
