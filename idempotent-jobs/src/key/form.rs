//! The text form: written, and recognised.

use std::fmt::Write;

use super::KeyValue;
use crate::json::{Document, Kind, Place, write_text};

/// A compact JSON array: integers in decimal, booleans as words, texts in the one way of [`write_text`].
///
/// Equal integers are equal parts whatever their width, so that widening a field keeps its keys.
pub(super) fn write<'a>(values: impl IntoIterator<Item = KeyValue<'a>>) -> String {
    let mut form = String::from("[");
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            form.push(',');
        }
        push(&mut form, &value);
    }
    form.push(']');
    form
}

fn push(form: &mut String, value: &KeyValue<'_>) {
    match value {
        KeyValue::Text(text) => return write_text(form, text),
        KeyValue::Int(number) => write!(form, "{number}"),
        KeyValue::Uint(number) => write!(form, "{number}"),
        KeyValue::Bool(truth) => write!(form, "{truth}"),
    }
    .expect("writing to a String cannot fail");
}

/// Whether `text` is a form as [`write()`] writes it, to the byte.
pub(super) fn is_form(text: &str) -> bool {
    if !text.starts_with('[') {
        return false;
    }
    let Ok(document) = Document::parse(text) else { return false };
    let values: Option<Vec<_>> = document.elements(document.root()).map(|place| part(&document, place)).collect();
    values.is_some_and(|values| !values.is_empty() && write(values) == text)
}

fn part<'a>(document: &Document<'a>, place: Place) -> Option<KeyValue<'a>> {
    let raw = document.raw(place);
    match document.kind(place) {
        Kind::Bool => Some(KeyValue::Bool(raw == "true")),
        Kind::Number => raw.parse().map(KeyValue::Int).or_else(|_| raw.parse().map(KeyValue::Uint)).ok(),
        Kind::Text { .. } => Some(KeyValue::Text(document.decoded(place))),
        Kind::Null | Kind::Array | Kind::Object => None,
    }
}
