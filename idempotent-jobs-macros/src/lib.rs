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
/// | `retries` | attempts after the first | 5 |
/// | `backoff` | the waits between attempts, `"100ms..30s"` | `"100ms..30s"` |
/// | `timeout` | the whole attempt, `"30s"` | `"30s"` |
/// | `isolation` | `read_committed`, `repeatable_read`, `serializable` | `read_committed` |
///
/// A key that is too narrow loses work: with `key = "order_id"` the message that ships an order
/// is a duplicate of the one that charged it. Name every field that tells two effects apart.
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
