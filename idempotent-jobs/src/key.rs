//! Dedup keys: one text form, versioned and frozen. (contract; filled in by the key part)

use std::borrow::Cow;

use crate::error::Rejection;
use crate::message::Headers;

/// One part of a key as it goes into the text form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// A JSON string.
    Text(Cow<'a, str>),
    /// A JSON number, signed.
    Int(i128),
    /// A JSON number, unsigned.
    Uint(u128),
    /// `true` or `false`.
    Bool(bool),
}

/// A type that may be part of a key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    label = "not a key part",
    note = "a key part has one exact text for each value: integers, strings, `bool`, `char`, `uuid::Uuid`, dates behind the features `chrono` and `time`, and types with `#[derive(KeyPart)]`"
)]
pub trait KeyPart {
    /// `text`, `number` or `bool`: what the form holds for this type.
    const KIND: &'static str;
    /// The value's one text.
    fn value(&self) -> KeyValue<'_>;
}

/// One declared part of the key of payload `P`.
pub struct Part<P> {
    /// As written in `key = "…"`: `order_id`, `customer.id`, `header(ce_id)`.
    pub name: &'static str,
    /// [`KeyPart::KIND`], `text` for a header.
    pub kind: &'static str,
    source: Source<P>,
}

#[expect(clippy::type_complexity)]
enum Source<P> {
    Field(Box<dyn Fn(&P) -> KeyValue<'_> + Send + Sync>),
    Header(&'static str),
}

impl<P> Part<P> {
    /// A field of the payload, `get` being compiled against the payload's type.
    pub fn field<T: KeyPart + ?Sized + 'static>(name: &'static str, get: fn(&P) -> &T) -> Self where P: 'static {
        Self { name, kind: T::KIND, source: Source::Field(Box::new(move |payload| get(payload).value())) }
    }
    /// A header, as one text part.
    pub fn header(name: &'static str, header: &'static str) -> Self {
        Self { name, kind: "text", source: Source::Header(header) }
    }
}

/// The key of a message for a job, in its text form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key { text: String }

impl Key {
    /// The key of `payload` and `headers` by `parts`.
    pub fn compute<P>(parts: &[Part<P>], payload: &P, headers: &Headers) -> Result<Self, Rejection> { todo!() }
    /// The text form, whole.
    pub fn as_str(&self) -> &str { &self.text }
    /// What is stored: the form, or `sha256:` and its digest when it is too long for an index.
    pub fn stored(&self) -> Cow<'_, str> { Cow::Borrowed(&self.text) }
    /// A key of this text form, for tests of the stores.
    #[doc(hidden)]
    pub fn from_text(text: impl Into<String>) -> Self { Self { text: text.into() } }
    /// 8 bytes of its digest in hex: what logs and errors show instead of the key.
    pub fn hash(&self) -> String { todo!() }
}
