//! What must not differ between two messages of one key.
//!
//! The digest is taken over the wire value, never over the decoded type: a deploy that adds a field
//! would otherwise turn every redelivery into a conflict. It is compared only with digests of the
//! same [`Scheme`].

mod canonical;

#[cfg(test)]
mod tests;

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::{Reason, Rejection};
use crate::json::{Document, Place};

/// Which parts of the payload are compared; its id is stored beside each fingerprint.
///
/// Two schemes of the same paths are the same scheme, in whatever order and however often the paths are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    id: String,
    paths: Vec<String>,
}

impl Scheme {
    /// The whole payload when `paths` is empty, else only these wire paths (`amount_cents`, `customer.id`).
    ///
    /// A path names members of objects as they are spelled on the wire, joined by dots. A comma
    /// separates paths here as it does in the id, so that no two schemes share an id; a member whose
    /// own name holds a dot or a comma cannot be named.
    pub fn new(paths: &[&str]) -> Self {
        let split = paths.iter().flat_map(|path| path.split(',')).map(str::trim);
        let mut paths: Vec<String> = split.filter(|path| !path.is_empty()).map(str::to_owned).collect();
        paths.sort_unstable();
        paths.dedup();
        let id = if paths.is_empty() { VERSION.to_owned() } else { format!("{VERSION}:{}", paths.join(",")) };
        Self { id, paths }
    }

    /// `v1` or `v1:amount_cents,customer.id`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SHA-256 over the wire value in canonical form.
    ///
    /// # Errors
    /// [`Reason::Decode`] when `payload` is not JSON, or when a compared path is not in it exactly once.
    /// Null is a value.
    pub fn fingerprint(&self, payload: &[u8]) -> Result<Fingerprint, Rejection> {
        let text = str::from_utf8(payload)
            .map_err(|error| refused(format!("the payload is not UTF-8 at byte {}", error.valid_up_to())))?;
        let document = Document::parse(text).map_err(|fault| refused(format!("the payload is not JSON: {fault}")))?;
        self.of(&document)
    }

    /// The fingerprint of a payload that is scanned already.
    pub(crate) fn of(&self, document: &Document<'_>) -> Result<Fingerprint, Rejection> {
        let mut digest = Sha256::new();
        if self.paths.is_empty() {
            canonical::value(&mut digest, document, document.root());
        } else {
            let places: Vec<Place> = self.paths.iter().map(|path| at_path(document, path)).collect::<Result<_, _>>()?;
            canonical::paths(&mut digest, document, self.paths.iter().map(String::as_str).zip(places));
        }
        Ok(Fingerprint(digest.finalize().into()))
    }
}

/// Belongs to the canonical form: whoever changes one changes both.
const VERSION: &str = "v1";

fn at_path(document: &Document<'_>, path: &str) -> Result<Place, Rejection> {
    let mut place = document.root();
    for name in path.split('.') {
        let mut found = document.named(place, name);
        let first = found.next().ok_or_else(|| {
            refused(format!("the compared path `{path}` is not in the message: spell it as on the wire"))
        })?;
        if found.next().is_some() {
            return Err(refused(format!("the compared path `{path}` is in the message more than once")));
        }
        place = first;
    }
    Ok(place)
}

fn refused(detail: String) -> Rejection {
    Rejection::new(Reason::Decode, detail)
}

/// The digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The digest's bytes, as they are stored.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A stored digest; `None` unless it is 32 bytes long.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// The digest in hexadecimal.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// How a message stands to the one that claimed its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// The same wire value: a duplicate.
    Same,
    /// Another wire value under one key: a conflict.
    Different,
    /// Another scheme, so nothing can be said: an unverified duplicate, never a conflict.
    Incomparable,
}

/// Compares a fingerprint and its scheme's id with those stored.
pub fn compare(mine: (&Fingerprint, &str), stored: (&[u8], &str)) -> Comparison {
    if mine.1 != stored.1 || stored.0.len() != mine.0.0.len() {
        Comparison::Incomparable
    } else if mine.0.0 == stored.0 {
        Comparison::Same
    } else {
        Comparison::Different
    }
}
