//! What may be said of a decoding error.
//!
//! serde's texts quote the payload (`invalid type: string "4111 1111 …", expected u64`), and errors end in logs.
//! What comes from the type is kept, the names of fields and variants and what was expected; what
//! comes from the message, and every text of a type's own making, is left out.

/// The longest list of what was expected that is shown.
const LONGEST: usize = 200;

/// The error in words that hold nothing of the payload.
pub(super) fn about(error: &serde_json::Error) -> String {
    let what = what(error);
    format!("the payload does not fit the job's type: {what} at line {} column {}", error.line(), error.column())
}

/// The same without its place.
pub(super) fn what(error: &serde_json::Error) -> String {
    let text = without_place(error);
    if error.is_data() { of_data(&text) } else { text }
}

/// The name of the field whose absence is the error.
pub(super) fn missing_field(error: &serde_json::Error) -> Option<String> {
    named(&without_place(error), "missing field `").map(str::to_owned)
}

/// Whether the error is that a field was given twice.
pub(super) fn is_duplicate_field(error: &serde_json::Error) -> bool {
    named(&without_place(error), "duplicate field `").is_some()
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn of_data(text: &str) -> String {
    if named(text, "missing field `").or_else(|| named(text, "duplicate field `")).is_some() {
        return text.to_owned();
    }
    let kind = ["unknown variant", "unknown field", "invalid type", "invalid value", "invalid length"]
        .into_iter()
        .find(|kind| text.starts_with(kind));
    match (kind, kind.and_then(|_| expected(text))) {
        (Some(kind @ "invalid type"), Some(expected)) => format!("{kind}:{} expected {expected}", found(text)),
        (Some(kind), Some(expected)) => format!("{kind}, expected {expected}"),
        (Some(kind), None) => kind.to_owned(),
        (None, _) => "a value is refused by its own type".to_owned(),
    }
}

/// The name in backticks after `prefix`, when nothing follows it. serde takes it from the type.
fn named<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.strip_prefix(prefix)?.strip_suffix('`').filter(|name| !name.contains('`'))
}

/// What the type expected: after the last such word, since what precedes it may be the message's.
fn expected(text: &str) -> Option<String> {
    if text.ends_with(", there are no variants") || text.ends_with(", there are no fields") {
        return None;
    }
    let (_, expected) = text.rsplit_once(", expected ")?;
    Some(expected.chars().take(LONGEST).collect())
}

/// The kind of value that was found, of the kinds JSON has.
fn found(text: &str) -> &'static str {
    let rest = text.strip_prefix("invalid type: ").unwrap_or_default();
    let kinds = [
        ("boolean ", " a boolean,"),
        ("integer ", " an integer,"),
        ("floating point ", " a fraction,"),
        ("string ", " a string,"),
        ("null,", " null,"),
        ("unit value,", " null,"),
        ("sequence,", " an array,"),
        ("map,", " an object,"),
    ];
    kinds.into_iter().find(|(start, _)| rest.starts_with(start)).map_or("", |(_, words)| words)
}
