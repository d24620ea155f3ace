//! The macros of `idempotent-jobs`; use them through that crate, which documents them.
//!
//! Each macro goes one way: what was *written* is read (`args`, `signature`), *validated* with
//! every mistake collected (`job`, `message`, `key_part`), and only then *expanded*, which
//! cannot fail. Of the runtime this crate knows the names in `idempotent_jobs::__private`.

mod args;
mod duration;
mod errors;
mod expand;
mod job;
mod key;
mod key_part;
mod message;
mod names;
mod options;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Declares a job: its database effects happen exactly once for each key.
///
/// ```text
/// #[idempotent_job(topic = "orders", key = "order_id, op")]
/// async fn charge(tx: &mut PgTx, job: Charge) -> JobResult { … }
/// ```
///
/// The function stays as written and can be called from any test (`idempotent_jobs::testing` makes its
/// arguments). Its first argument is the
/// transaction handle, the second the payload; further arguments are extractors.
///
/// | option | value | default |
/// |---|---|---|
/// | `topic` | the topic to read | the payload's `JobMessage` |
/// | `key` | parts of the dedup key: `order_id`, `customer.id`, `header(ce_id)` | the payload's `JobMessage` |
/// | `name` | the job's name in the database, 1 to 100 of `A-Z a-z 0-9 _ . -` | the function's name |
/// | `event` | takes only messages of this event type | takes all |
/// | `compare` | wire paths that must not differ between two messages of one key | the whole payload |
/// | `retries` | attempts after the first | 10: with the default waits, some 40 seconds to two minutes |
/// | `backoff` | the waits between attempts, `"100ms..30s"` | `"100ms..30s"` |
/// | `timeout` | the whole attempt, `"30s"` | `"30s"` |
/// | `isolation` | `read_committed`, `repeatable_read`, `serializable` | `read_committed` |
/// | `on_exhausted` | a message that cannot be processed: `dead_letter`, `stop` | `dead_letter` |
/// | `on_conflict` | a key that comes again with other content: `dead_letter`, `skip`, `fail` | `dead_letter` |
/// | `on_tombstone` | a message without a payload: `dead_letter`, `skip` | `dead_letter` |
/// | `ordering` | which messages wait for each other: `key`, `partition`, `none` | `key` |
/// | `shared_tx` | up to how many jobs share a transaction, 2 to 1000 | each has its own |
/// | `batch` | up to how many payloads the function takes at once, 2 to 1000 | one |
///
/// A key that is too narrow loses work: with `key = "order_id"` the message that ships an order
/// is a duplicate of the one that charged it. Name every field that tells two effects apart.
///
/// # What cannot be processed
/// A message whose attempts are used up, that its handler gives up (`.terminal()`), or that cannot be read or
/// keyed becomes a dead letter: it is written whole to the database, with the reason, before its
/// offset moves, and the worker goes on. `idempotent_jobs::dead_letters` shows it and runs it again. With
/// `on_exhausted = stop` the worker stops before its offset instead. `on_conflict = fail` does the same
/// for a key that was used with other content, and `skip` passes over such a message, whose content is then
/// lost: it is counted and logged.
///
/// # Order
/// Messages that wait for each other are handled one after the other, in the order of the log.
/// With `ordering = key` those of one Kafka message key do; a message without one waits for
/// none. With `partition` all of a partition do, and with `none` no message waits. Jobs of one topic
/// share its lanes, so the strictest of them counts for all.
///
/// # Shared transactions
/// Most of what a short job costs is its commit. With `shared_tx = 50` up to 50 messages are
/// handled one by one in one transaction and committed together. The function sees no
/// difference: if one fails, all is undone and each is run again in a transaction of its own. A job that
/// borrows `tx.connection()`, or leaves a setting such as `SET LOCAL` behind, is run alone instead, since
/// the next would see what it did.
///
/// # Batch jobs
/// With `batch = 100` the function takes a `Vec` of up to 100 payloads, so that one statement can
/// serve them all. Further arguments come in `Vec`s too, one for each payload and in their order:
/// `Vec<Meta>`, `Vec<Headers>`, a `Vec` of an extractor of one's own; `State<T>` comes once.
///
/// ```text
/// #[idempotent_job(topic = "orders", key = "order_id, op", batch = 100)]
/// async fn charge(tx: &mut PgTx, jobs: Vec<Charge>, metas: Vec<Meta>) -> JobResult { … }
/// ```
///
/// * Only fresh messages come, and at least one; duplicates are left out.
/// * Messages that wait for each other by `ordering` come in the order of the log.
/// * `timeout` is for the whole batch.
/// * If it fails, all of it is undone and it is run again one by one, each alone in its `Vec`:
///   the message that is to blame retries, and is given up in the end, by itself.
///
/// A payload that is an array itself goes behind a type of its own, `struct Charges(Vec<Charge>)`.
#[proc_macro_attribute]
pub fn idempotent_job(args: TokenStream, item: TokenStream) -> TokenStream {
    job::expand(args.into(), &item.into()).into()
}

/// Makes a type usable as a part of a key.
///
/// An enum of plain variants gives each its text, so that renaming a variant cannot change a
/// key; a struct with one field has the key part of that field.
///
/// ```text
/// #[derive(KeyPart)]
/// enum Op { #[key("charge")] Charge, #[key("refund")] Refund }
///
/// #[derive(KeyPart)]
/// struct OrderId(u64);
/// ```
#[proc_macro_derive(KeyPart, attributes(key))]
pub fn key_part(item: TokenStream) -> TokenStream {
    key_part::expand(item.into()).into()
}

/// Makes a payload sendable: its topic, its key, its place in the order.
///
/// ```text
/// #[derive(Serialize, Deserialize, JobMessage)]
/// #[message(topic = "orders", key = "order_id, op", partition_by = "order_id", event = "charged")]
/// struct Charge { order_id: u64, op: Op, amount_cents: i64 }
/// ```
///
/// `topic` and `key` are required. The key is computed from the message's own fields, so a resend
/// has the same one. Messages of equal `partition_by` keep their order; without it, those of
/// equal keys do. `event` is sent as the `event` header.
#[proc_macro_derive(JobMessage, attributes(message))]
pub fn job_message(item: TokenStream) -> TokenStream {
    message::expand(item.into()).into()
}
