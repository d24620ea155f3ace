//! Whether the fields of a key are on the wire.
//!
//! `#[serde(default)]` makes a value of an absent member, and a message without its key would then share one with all
//! others of its kind. So the wire names of the key's fields are asked of the payload's own
//! `Deserialize`, and looked up in each message.
//!
//! The limit: a path knows the Rust name of a field, the type tells wire names, and the two are matched exactly
//! or else but for case, `_` and `-` (as `rename_all` changes them). A field renamed to another word, or
//! one inside `flatten` or a tagged enum, is not found, and its absence is then noticed only when decoding fails.
//! Null under an alias of the field is likewise left to the type.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};

use super::complaint;
use crate::error::{Reason, Rejection};
use crate::json::{Document, Kind, Place};
use crate::key::Part;

/// The wire names of one field of a key.
pub(crate) struct KeyField {
    /// As written in `key = "…"`.
    name: &'static str,
    /// For each known step of its path the names that may stand there.
    steps: Vec<Vec<&'static str>>,
}

/// What a message holds where a field of the key should be.
enum Found {
    Value,
    Null,
    /// No member of these names in the object that should have one.
    Nothing(Place, usize),
    /// Not even the object.
    NoObject,
}

impl KeyField {
    /// Asks `P` for the wire names; `None` for a header, and where `P` does not tell.
    pub(crate) fn of<P: DeserializeOwned>(part: &Part<P>) -> Option<Self> {
        if part.header_name().is_some() {
            return None;
        }
        let path: Vec<&str> = part.name.split('.').collect();
        let mut steps = Vec::new();
        let _ = P::deserialize(Ask { path: &path, steps: &mut steps });
        (!steps.is_empty()).then_some(Self { name: part.name, steps })
    }

    /// Refuses a decoded message whose field was made up by the type.
    pub(super) fn check<P: DeserializeOwned>(&self, document: &Document<'_>) -> Result<(), Rejection> {
        match self.find(document) {
            Found::Value => Ok(()),
            Found::Null => Err(self.missing("null in")),
            Found::Nothing(object, step) if self.is_filled::<P>(document, object, step) => Ok(()),
            Found::Nothing(..) => Err(self.missing("missing from")),
            Found::NoObject => Err(Rejection::new(
                Reason::Decode,
                format!("`{}`, a part of the key, is read by name, and the message has no object there", self.name),
            )),
        }
    }

    /// The refusal of a message that could not be decoded, if this field is why.
    pub(super) fn blamed(&self, document: &Document<'_>, error: &serde_json::Error) -> Option<Rejection> {
        match self.find(document) {
            Found::Null => Some(self.missing("null in")),
            Found::Nothing(_, step) => {
                let missing = complaint::missing_field(error)?;
                self.steps[step].contains(&missing.as_str()).then(|| self.missing("missing from"))
            }
            Found::Value | Found::NoObject => None,
        }
    }

    fn find(&self, document: &Document<'_>) -> Found {
        let mut place = document.root();
        for (step, names) in self.steps.iter().enumerate() {
            if document.kind(place) != Kind::Object {
                return Found::NoObject;
            }
            let Some(value) = names.iter().find_map(|name| document.named(place, name).next()) else {
                return Found::Nothing(place, step);
            };
            if document.kind(value) == Kind::Null {
                return Found::Null;
            }
            place = value;
        }
        Found::Value
    }

    /// Whether a member of yet another name, an alias, filled the field: only then does the type call a
    /// member of its own name a duplicate. Asked only of messages that seem to lack the field.
    fn is_filled<P: DeserializeOwned>(&self, document: &Document<'_>, object: Place, step: usize) -> bool {
        let (before, after) = document.text().split_at(document.end(object) - 1);
        let comma = if document.members(object).next().is_some() { "," } else { "" };
        let name = serde_json::Value::from(self.steps[step][0]);
        let twice = format!("{before}{comma}{name}:null{after}");
        serde_json::from_str::<P>(&twice).is_err_and(|error| complaint::is_duplicate_field(&error))
    }

    fn missing(&self, how: &str) -> Rejection {
        Rejection::new(Reason::KeyMissing, format!("`{}`, a part of the key, is {how} the message", self.name))
    }
}

/// The declared names that a path's `segment` may stand for: itself, or else those that differ in style only.
fn names_of(segment: &str, declared: &'static [&'static str]) -> Vec<&'static str> {
    match declared.iter().find(|name| **name == segment) {
        Some(same) => vec![same],
        None => declared.iter().filter(|name| letters(name).eq(letters(segment))).copied().collect(),
    }
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase)
}

/// A deserializer without data. A struct tells it the names of its fields; it then offers the struct the one member
/// the path goes through, and asks on inside.
struct Ask<'a> {
    path: &'a [&'a str],
    steps: &'a mut Vec<Vec<&'static str>>,
}

impl<'de> Deserializer<'de> for Ask<'_> {
    type Error = Enough;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Enough> {
        let (segment, path) = self.path.split_first().ok_or(Enough)?;
        let names = names_of(segment, fields);
        let name = *names.first().ok_or(Enough)?;
        self.steps.push(names);
        visitor.visit_map(OneMember { name: Some(name), value: Some(Ask { path, steps: self.steps }) })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Enough> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Enough> {
        Err(Enough)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct OneMember<'a> {
    name: Option<&'static str>,
    value: Option<Ask<'a>>,
}

impl<'de> MapAccess<'de> for OneMember<'_> {
    type Error = Enough;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Enough> {
        let name: Option<StrDeserializer<'_, Enough>> = self.name.take().map(IntoDeserializer::into_deserializer);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Enough> {
        seed.deserialize(self.value.take().ok_or(Enough)?)
    }
}

/// Ends the asking; it carries nothing, since nobody reads it.
#[derive(Debug)]
struct Enough;

impl std::fmt::Display for Enough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the names are known")
    }
}

impl std::error::Error for Enough {}

impl de::Error for Enough {
    fn custom<T: std::fmt::Display>(_message: T) -> Self {
        Self
    }
}
