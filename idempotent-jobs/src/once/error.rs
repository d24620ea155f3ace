//! Why a call has no answer.

use crate::error::BoxError;
use crate::store::{Asked, Fault, StoreError};

/// Why [`once`](super::once()) gives no answer. Nothing of the call is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The key was used before with another request, so the stored answer is not the answer to
    /// this one. The caller's mistake: HTTP 422.
    #[error(
        "the key of hash {key_hash} was used in `{scope}` before with another request: send the first request \
         again, or give this one a key of its own"
    )]
    Conflict {
        /// The scope of the key.
        scope: String,
        /// 8 bytes of the key's digest in hex.
        key_hash: String,
    },
    /// The key is empty, or a text in it, which is what a caller without one sends: HTTP 400.
    #[error("the key is empty, or a text in it, and `{scope}` needs one for each effect")]
    KeyMissing {
        /// The scope of the key.
        scope: String,
    },
    /// The request cannot be compared: it has no JSON.
    #[error("the request cannot be compared with the one that used the key: {0}")]
    Request(String),
    /// The key was claimed and its effect never came to an end: the effect ended the transaction by itself.
    /// What it did before is stored, so a person has to decide: delete the row of `answers`, or
    /// write the answer.
    #[error(
        "the key of hash {key_hash} was claimed in `{scope}` by an effect that ended the transaction before it gave its \
         answer: see what it did, then delete its row of `answers` or write its answer there"
    )]
    Unanswered {
        /// The scope of the key.
        scope: String,
        /// 8 bytes of the key's digest in hex.
        key_hash: String,
    },
    /// The database refused or did not answer. The transaction may be beyond use: roll it back.
    #[error("{error}")]
    Store {
        /// Whether the same call in a new transaction may succeed: HTTP 503.
        transient: bool,
        /// What was being done, and what the database said of it, without values.
        error: BoxError,
    },
    /// The answer cannot be stored as JSON, or the stored one does not fit its type any more.
    #[error("the answer does not go through JSON: {0}")]
    Answer(String),
    /// The effect failed, and is undone.
    #[error(transparent)]
    Effect(E),
}

impl<E> OnceError<E> {
    pub(super) fn conflict(asked: &Asked<'_>) -> Self {
        Self::Conflict { scope: asked.scope.to_owned(), key_hash: asked.key.hash() }
    }

    pub(super) fn unanswered(asked: &Asked<'_>) -> Self {
        Self::Unanswered { scope: asked.scope.to_owned(), key_hash: asked.key.hash() }
    }

    pub(super) fn store(error: StoreError) -> Self {
        Self::Store { transient: error.fault == Fault::Transient, error: Box::new(error) }
    }
}
