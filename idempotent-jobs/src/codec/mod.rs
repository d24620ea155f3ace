//! Reads payloads. One codec so far: JSON, and nothing is guessed.

mod complaint;
mod declared;

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;

pub(crate) use self::declared::KeyField;

use crate::error::{Reason, Rejection};
use crate::json::Document;
use crate::message::Message;

/// The payload's bytes; a tombstone is refused.
pub(crate) fn payload(message: &Message) -> Result<&[u8], Rejection> {
    message
        .payload
        .as_deref()
        .ok_or_else(|| Rejection::new(Reason::Tombstone, "the payload is null and this job needs one"))
}

/// The payload as JSON, scanned once for all that need the wire value.
///
/// No error of this module quotes the payload: what it says is about places, types and declared names.
pub(crate) fn scan(bytes: &[u8]) -> Result<Document<'_>, Rejection> {
    match bytes {
        [] => return Err(refused("the payload is empty, and this job reads JSON")),
        [0, a, b, c, d, ..] => {
            let id = u32::from_be_bytes([*a, *b, *c, *d]);
            return Err(refused(format!(
                "the payload looks like schema registry framing, schema id {id}: this job reads plain JSON, so let the sender write it without a registry's serializer"
            )));
        }
        [0xEF, 0xBB, 0xBF, ..] => {
            return Err(refused(
                "the payload begins with a UTF-8 byte order mark, which JSON has not: let the sender leave it out",
            ));
        }
        _ => {}
    }
    let text = str::from_utf8(bytes)
        .map_err(|error| refused(format!("the payload is not UTF-8 at byte {}", error.valid_up_to())))?;
    Document::parse(text).map_err(|fault| refused(format!("the payload is not JSON: {fault}")))
}

/// Decodes a scanned payload; a part of the key that is absent or null on the wire is `key_missing`.
///
/// Members the type does not know are accepted, so that senders may add some.
pub(crate) fn decode<P: DeserializeOwned>(document: &Document<'_>, fields: &[KeyField]) -> Result<P, Rejection> {
    match serde_json::from_str(document.text()) {
        Ok(payload) => {
            fields.iter().try_for_each(|field| field.check::<P>(document))?;
            Ok(payload)
        }
        Err(error) => {
            let missing = fields.iter().find_map(|field| field.blamed(document, &error));
            Err(missing.unwrap_or_else(|| refused(complaint::about(&error))))
        }
    }
}

/// An error of JSON in words that hold nothing of the value.
pub(crate) fn complaint(error: &serde_json::Error) -> String {
    complaint::what(error)
}

fn refused(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::Decode, detail)
}
