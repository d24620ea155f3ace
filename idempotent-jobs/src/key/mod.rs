//! Dedup keys: one text form, versioned and frozen.
//!
//! A key is written as a compact JSON array of its typed parts, `["A1","charge"]` or `[42,"refund"]`, so that
//! `"42"` and `42`, and `("a|b","c")` and `("a","b|c")`, never meet. The form is frozen by
//! `tests/frozen/keys.json`: a changed form would let every redelivered message run again.

#[cfg(any(feature = "chrono", feature = "time"))]
mod dates;
mod form;
mod part;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};

pub use self::part::{KeyPart, KeyValue, Part};

use crate::error::{Reason, Rejection};
use crate::message::{Headers, IDEMPOTENCY_KEY_HEADER, IDEMPOTENCY_KEY_PARTS_HEADER};

/// The longest form that is stored as it is: well within what every database can index.
const LONGEST_STORED: usize = 512;

/// The key of a message for a job, in its text form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    text: String,
}

impl Key {
    /// The key made of these values, in their order: for callers that have no message.
    pub fn new<'a>(values: impl IntoIterator<Item = KeyValue<'a>>) -> Self {
        Self { text: form::write(values) }
    }

    /// A key whose text form is known.
    pub(crate) fn of_text(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// The key of `payload` and `headers` by `parts`.
    ///
    /// A job keyed by `header(idempotency-key)` alone takes a header in our form as it stands, and any other
    /// text as one text part. A job keyed by fields compares that header, where there is one, with
    /// the key it computes; a sender that says in `idempotency-key-parts` that it made the header of other
    /// parts is not contradicted, since the two were never meant to be equal.
    ///
    /// # Errors
    /// [`Reason::KeyMissing`] when a header is absent or null, or is the only part and empty;
    /// [`Reason::KeyInvalid`] when it is not UTF-8; [`Reason::KeyMismatch`] when the `idempotency-key`
    /// header contradicts the fields.
    pub fn compute<P>(parts: &[Part<P>], payload: &P, headers: &Headers) -> Result<Self, Rejection> {
        match parts {
            [] => return Err(Rejection::new(Reason::KeyMissing, "the job declares no part of a key")),
            [only] if only.header_name().is_some() => return Self::of_header(only, payload, headers),
            _ => {}
        }
        let values = parts.iter().map(|part| part.value(payload, headers));
        let key = Self::new(values.collect::<Result<Vec<_>, _>>()?);
        key.check_header(parts, headers)?;
        Ok(key)
    }

    /// A key of one header. Empty, it would make one key of all messages whose sender has none.
    fn of_header<P>(part: &Part<P>, payload: &P, headers: &Headers) -> Result<Self, Rejection> {
        let value = part.value(payload, headers)?;
        match &value {
            KeyValue::Text(text) if text.is_empty() => Err(Rejection::new(
                Reason::KeyMissing,
                format!("`{}`, the whole key, is empty in the message", part.name),
            )),
            KeyValue::Text(text) if part.header_name() == Some(IDEMPOTENCY_KEY_HEADER) && form::is_form(text) => {
                Ok(Self { text: text.to_string() })
            }
            _ => Ok(Self::new([value])),
        }
    }

    fn check_header<P>(&self, parts: &[Part<P>], headers: &Headers) -> Result<(), Rejection> {
        let Some(claimed) = headers.get(IDEMPOTENCY_KEY_HEADER) else { return Ok(()) };
        if parts.iter().all(|part| part.header_name().is_some()) || claimed == self.text.as_bytes() {
            return Ok(());
        }
        let names = names(parts);
        if headers.get(IDEMPOTENCY_KEY_PARTS_HEADER).is_some_and(|theirs| theirs != names.as_bytes()) {
            return Ok(());
        }
        Err(Rejection::new(
            Reason::KeyMismatch,
            format!(
                "the header `{IDEMPOTENCY_KEY_HEADER}` (hash {}) is not the key of `{names}` in this message (hash {}): \
                 key the job by `header({IDEMPOTENCY_KEY_HEADER})` to trust the header, or let the sender \
                 compute it from these fields",
                hash(claimed),
                self.hash()
            ),
        ))
    }

    /// The text form, whole.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What is stored: the form, or `sha256:` and its digest when it is too long for an index.
    ///
    /// The two cannot meet, since a form begins with `[`. The text holds no NUL, which PostgreSQL refuses: JSON
    /// writes it as `\u0000`, six characters.
    pub fn stored(&self) -> Cow<'_, str> {
        stored(&self.text)
    }

    /// 8 bytes of its digest in hex: what logs and errors show instead of the key.
    pub fn hash(&self) -> String {
        hash(self.text.as_bytes())
    }
}

/// Shows the hash: keys name customers and orders.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.hash())
    }
}

/// The key a message to be sent carries, and the value of its `idempotency-key-parts` header.
///
/// # Errors
/// [`Reason::KeyMissing`] when a part is no field of the message: a sender has no headers to read.
pub fn outgoing<P>(parts: &[Part<P>], payload: &P) -> Result<(Key, String), Rejection> {
    Ok((Key::compute(parts, payload, &Headers::default())?, names(parts)))
}

/// As [`Key::stored`], of a text form; what is stored already stays as it is.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_STORED {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("sha256:{}", hex(&Sha256::digest(text))))
}

fn names<P>(parts: &[Part<P>]) -> String {
    parts.iter().map(|part| part.name).collect::<Vec<_>>().join(",")
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
