//! What a key is made of.

use std::borrow::Cow;
use std::num::NonZero;
use std::sync::Arc;

use crate::error::{Reason, Rejection};
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
///
/// What qualifies is one exact text for each value, the same in every process and every version:
///
/// | type | its part |
/// |---|---|
/// | integers, `NonZero` of them | the number in decimal, whatever its width |
/// | `str`, `String`, `Box<str>`, `Arc<str>`, `Cow<str>`, `char` | the text as it is: no trimming, no case, no Unicode normalisation |
/// | `bool` | `true` or `false` |
/// | `uuid::Uuid` | hyphenated, lower case |
/// | `chrono::NaiveDate`, `time::Date` | `2026-02-28`; a year beyond four digits has its sign |
/// | `chrono::NaiveTime`, `time::Time` | `09:30:00.000000000`, always nine digits |
/// | `chrono::NaiveDateTime`, `time::PrimitiveDateTime` | `2026-02-28T09:30:00.000000000` |
/// | `chrono::DateTime<_>`, `time::OffsetDateTime` | the instant in UTC, `2026-02-28T08:30:00.000000000Z` |
///
/// Enums and newtypes of your own: `#[derive(KeyPart)]`.
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

macro_rules! integers {
    ($variant:ident, $wide:ty: $($narrow:ty),*) => {$(
        impl KeyPart for $narrow {
            const KIND: &'static str = "number";
            fn value(&self) -> KeyValue<'_> {
                KeyValue::$variant(*self as $wide)
            }
        }

        impl KeyPart for NonZero<$narrow> {
            const KIND: &'static str = "number";
            fn value(&self) -> KeyValue<'_> {
                KeyValue::$variant(self.get() as $wide)
            }
        }
    )*};
}

integers!(Int, i128: i8, i16, i32, i64, i128, isize);
integers!(Uint, u128: u8, u16, u32, u64, u128, usize);

impl KeyPart for bool {
    const KIND: &'static str = "bool";
    fn value(&self) -> KeyValue<'_> {
        KeyValue::Bool(*self)
    }
}

impl KeyPart for str {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        KeyValue::Text(Cow::Borrowed(self))
    }
}

impl KeyPart for String {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        self.as_str().value()
    }
}

impl KeyPart for Box<str> {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        (**self).value()
    }
}

impl KeyPart for Arc<str> {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        (**self).value()
    }
}

impl KeyPart for Cow<'_, str> {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        (**self).value()
    }
}

impl KeyPart for char {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        KeyValue::Text(Cow::Owned(self.to_string()))
    }
}

impl KeyPart for uuid::Uuid {
    const KIND: &'static str = "text";
    fn value(&self) -> KeyValue<'_> {
        KeyValue::Text(Cow::Owned(self.hyphenated().to_string()))
    }
}

impl<T: KeyPart + ?Sized> KeyPart for &T {
    const KIND: &'static str = T::KIND;
    fn value(&self) -> KeyValue<'_> {
        (**self).value()
    }
}

/// One declared part of the key of payload `P`.
pub struct Part<P> {
    /// As written in `key = "…"`: `order_id`, `customer.id`, `header(ce_id)`.
    pub name: &'static str,
    /// [`KeyPart::KIND`], `text` for a header.
    pub kind: &'static str,
    source: Source<P>,
}

/// Reads a part out of a payload.
type Get<P> = Box<dyn Fn(&P) -> KeyValue<'_> + Send + Sync>;

enum Source<P> {
    Field(Get<P>),
    Header(&'static str),
}

impl<P> Part<P> {
    /// A field of the payload, `get` being compiled against the payload's type.
    pub fn field<T: KeyPart + ?Sized + 'static>(name: &'static str, get: fn(&P) -> &T) -> Self
    where
        P: 'static,
    {
        Self { name, kind: T::KIND, source: Source::Field(Box::new(move |payload| get(payload).value())) }
    }

    /// A header, as one text part.
    pub fn header(name: &'static str, header: &'static str) -> Self {
        Self { name, kind: "text", source: Source::Header(header) }
    }

    /// The header it is read from, if it is no field.
    pub(crate) fn header_name(&self) -> Option<&'static str> {
        match self.source {
            Source::Field(_) => None,
            Source::Header(header) => Some(header),
        }
    }

    /// Its value. Of several headers of one name the last counts, as in Kafka's own clients.
    pub(super) fn value<'a>(&self, payload: &'a P, headers: &'a Headers) -> Result<KeyValue<'a>, Rejection> {
        let header = match &self.source {
            Source::Field(get) => return Ok(get(payload)),
            Source::Header(header) => header,
        };
        let refused = |reason, what| Rejection::new(reason, format!("`{}`, a part of the key, {what}", self.name));
        let bytes = headers
            .get(header)
            .ok_or_else(|| refused(Reason::KeyMissing, "is missing or null in the message's headers"))?;
        let text = str::from_utf8(bytes)
            .map_err(|_| refused(Reason::KeyInvalid, "is not UTF-8: a header in a key is text"))?;
        Ok(KeyValue::Text(Cow::Borrowed(text)))
    }
}
