//! Strings: from escapes to their value, and to the one way we write a value.

use sha2::{Digest, Sha256};

/// Takes text as it is made: a form to keep, or a digest that needs no copy of it.
pub(crate) trait Sink {
    fn put(&mut self, text: &str);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Sha256 {
    fn put(&mut self, text: &str) {
        self.update(text.as_bytes());
    }
}

/// Writes `value` as a JSON string, quotes included, in the one way that is frozen:
/// `\"`, `\\`, `\b`, `\t`, `\n`, `\f`, `\r`, the other characters below U+0020 as `\u00xx` in lower case,
/// and every further character as itself. It is what `serde_json` writes; written out here, since
/// stored keys must not change with a dependency.
pub(crate) fn write_text(out: &mut impl Sink, value: &str) {
    out.put("\"");
    let mut rest = value;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        out.put(&rest[..at]);
        write_escape(out, rest.as_bytes()[at]);
        rest = &rest[at + 1..];
    }
    out.put(rest);
    out.put("\"");
}

fn write_escape(out: &mut impl Sink, byte: u8) {
    out.put(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        0x08 => "\\b",
        b'\t' => "\\t",
        b'\n' => "\\n",
        0x0C => "\\f",
        b'\r' => "\\r",
        _ => return out.put(&format!("\\u{byte:04x}")),
    });
}

/// The value of a scanned string; the scanner has refused every bad escape.
pub(super) fn unescape(raw: &str) -> String {
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        let (character, used) = escaped(&rest[at..]);
        value.push(character);
        rest = &rest[at + used..];
    }
    value.push_str(rest);
    value
}

/// The character of the escape that `text` begins with, and the escape's length.
fn escaped(text: &str) -> (char, usize) {
    match text.as_bytes()[1] {
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        b'u' => by_number(text),
        other => (char::from(other), 2),
    }
}

fn by_number(text: &str) -> (char, usize) {
    let unit = |at: usize| u16::from_str_radix(&text[at..at + 4], 16).expect("the scanner saw four hexadecimal digits");
    let first = unit(2);
    if let Some(character) = char::from_u32(u32::from(first)) {
        return (character, 6);
    }
    let pair = char::decode_utf16([first, unit(8)]).next();
    (pair.and_then(Result::ok).expect("the scanner saw a whole surrogate pair"), 12)
}
