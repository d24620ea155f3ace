//! The arguments of `#[idempotent_job(…)]` as written.

use proc_macro2::TokenStream;
use syn::{Ident, LitInt, LitStr};

use crate::errors::Errors;
use crate::options::{Given, Legal, Options};

const LEGAL: &[Legal] = &[
    Legal { name: "topic", example: r#"topic = "orders""# },
    Legal { name: "key", example: r#"key = "order_id, op""# },
    Legal { name: "name", example: r#"name = "charge""# },
    Legal { name: "event", example: r#"event = "order_placed""# },
    Legal { name: "compare", example: r#"compare = "amount_cents, customer.id""# },
    Legal { name: "retries", example: "retries = 5" },
    Legal { name: "backoff", example: r#"backoff = "100ms..30s""# },
    Legal { name: "timeout", example: r#"timeout = "30s""# },
    Legal { name: "isolation", example: "isolation = serializable" },
    Legal { name: "on_exhausted", example: "on_exhausted = stop" },
    Legal { name: "park_limit", example: "park_limit = 1000" },
    Legal { name: "on_conflict", example: "on_conflict = skip" },
    Legal { name: "on_tombstone", example: "on_tombstone = skip" },
    Legal { name: "ordering", example: "ordering = partition" },
    Legal { name: "shared_tx", example: "shared_tx = 50" },
    Legal { name: "batch", example: "batch = 100" },
];

/// Each option, known only to be of the right kind.
pub(crate) struct Args {
    pub(crate) topic: Given<LitStr>,
    pub(crate) key: Given<LitStr>,
    pub(crate) name: Given<LitStr>,
    pub(crate) event: Given<LitStr>,
    pub(crate) compare: Given<LitStr>,
    pub(crate) retries: Given<LitInt>,
    pub(crate) backoff: Given<LitStr>,
    pub(crate) timeout: Given<LitStr>,
    pub(crate) isolation: Given<Ident>,
    pub(crate) on_exhausted: Given<Ident>,
    pub(crate) park_limit: Given<LitInt>,
    pub(crate) on_conflict: Given<Ident>,
    pub(crate) on_tombstone: Given<Ident>,
    pub(crate) ordering: Given<Ident>,
    pub(crate) shared_tx: Given<LitInt>,
    pub(crate) batch: Given<LitInt>,
    /// Whether an option that looks missing may have been meant by one that was not understood.
    pub(crate) unclear: bool,
}

impl Args {
    /// Reads the attribute's arguments.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let options = Options::parse("#[idempotent_job]", LEGAL, tokens, errors);
        Self {
            topic: options.text("topic", errors),
            key: options.text("key", errors),
            name: options.text("name", errors),
            event: options.text("event", errors),
            compare: options.text("compare", errors),
            retries: options.number("retries", errors),
            backoff: options.text("backoff", errors),
            timeout: options.text("timeout", errors),
            isolation: options.word("isolation", "the bare name of a level", errors),
            on_exhausted: options.word("on_exhausted", "a bare word", errors),
            park_limit: options.number("park_limit", errors),
            on_conflict: options.word("on_conflict", "a bare word", errors),
            on_tombstone: options.word("on_tombstone", "a bare word", errors),
            ordering: options.word("ordering", "a bare word", errors),
            shared_tx: options.number("shared_tx", errors),
            batch: options.number("batch", errors),
            unclear: options.unclear,
        }
    }
}
