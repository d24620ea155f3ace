//! Reads payloads. One codec so far: JSON, and nothing is guessed. (contract)

use serde::de::DeserializeOwned;

use crate::error::{Reason, Rejection};
use crate::key::Part;
use crate::message::Message;

/// The payload's bytes; a tombstone is refused.
pub(crate) fn payload(message: &Message) -> Result<&[u8], Rejection> {
    message.payload.as_deref().ok_or_else(|| {
        Rejection::new(Reason::Tombstone, "the payload is null and this job needs one")
    })
}

/// Decodes JSON; a part of the key that is absent or null on the wire is `key_missing`.
pub(crate) fn decode<P: DeserializeOwned>(bytes: &[u8], parts: &[Part<P>]) -> Result<P, Rejection> {
    let _ = parts;
    serde_json::from_slice(bytes).map_err(|error| Rejection::new(Reason::Decode, error.to_string()))
}
