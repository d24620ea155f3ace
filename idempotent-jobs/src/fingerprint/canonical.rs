//! The canonical form of a wire value, version 1, frozen by `tests/frozen/fingerprints.json`:
//!
//! * no white space;
//! * the members of an object sorted by the bytes of their names' values, unknown ones included; members of one
//!   name keep their order, so that a repeated member is seen;
//! * the elements of an array in their order;
//! * numbers exactly as written, so that `1`, `1.0` and `1e0` differ and 2^53+1 is itself: no sender changes
//!   the spelling of a number between two sends of one message, and rounding would hide changed amounts;
//! * strings and names by their values, written in the one way of [`write_text`];
//! * of compared paths, an object of each path and its value, sorted by path.

use std::borrow::Cow;

use crate::json::{Document, Kind, Place, Sink, write_text};

/// Writes the form of the value at `place`.
pub(super) fn value(out: &mut impl Sink, document: &Document<'_>, place: Place) {
    Canonical { document, out, members: Vec::new() }.value(place);
}

/// Writes the form of the values at sorted paths.
pub(super) fn paths<'p>(out: &mut impl Sink, document: &Document<'_>, paths: impl Iterator<Item = (&'p str, Place)>) {
    let mut open = "{";
    for (path, place) in paths {
        out.put(open);
        write_text(out, path);
        out.put(":");
        value(out, document, place);
        open = ",";
    }
    out.put("}");
}

/// `members` is a stack of the names being sorted, shared by all objects of the document.
struct Canonical<'d, 'a, S> {
    document: &'d Document<'a>,
    out: &'d mut S,
    members: Vec<(Cow<'a, str>, Place)>,
}

impl<S: Sink> Canonical<'_, '_, S> {
    fn value(&mut self, place: Place) {
        match self.document.kind(place) {
            Kind::Null | Kind::Bool | Kind::Number => self.out.put(self.document.raw(place)),
            Kind::Text { .. } => self.text(self.document.decoded(place)),
            Kind::Array => self.array(place),
            Kind::Object => self.object(place),
        }
    }

    /// What needed no decoding holds no escape and nothing that must be one: it is written already.
    fn text(&mut self, value: Cow<'_, str>) {
        match value {
            Cow::Borrowed(raw) => ["\"", raw, "\""].into_iter().for_each(|piece| self.out.put(piece)),
            Cow::Owned(value) => write_text(self.out, &value),
        }
    }

    fn array(&mut self, place: Place) {
        self.out.put("[");
        for (index, element) in self.document.elements(place).enumerate() {
            if index > 0 {
                self.out.put(",");
            }
            self.value(element);
        }
        self.out.put("]");
    }

    fn object(&mut self, place: Place) {
        let base = self.members.len();
        let document = self.document;
        self.members.extend(document.members(place).map(|(name, value)| (document.decoded(name), value)));
        self.members[base..].sort_by(|a, b| a.0.cmp(&b.0));
        self.out.put("{");
        for index in base..self.members.len() {
            if index > base {
                self.out.put(",");
            }
            let (name, value) = (std::mem::take(&mut self.members[index].0), self.members[index].1);
            self.text(name);
            self.out.put(":");
            self.value(value);
        }
        self.out.put("}");
        self.members.truncate(base);
    }
}
