//! JSON as it came over the wire, scanned once and kept as written.
//!
//! `serde_json` decodes for the handler; this keeps what decoding loses and what fingerprints and
//! keys must see: members the type does not know, absence and null, and numbers digit by digit.
//! A document is a flat list of nodes over the borrowed text: one allocation a message.

mod scan;
mod text;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(crate) use self::scan::Fault;
pub(crate) use self::text::{Sink, write_text};

/// Containers that may lie in each other: `serde_json` stops at the same depth, where it counts.
pub(crate) const MAX_DEPTH: usize = 127;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    /// `escaped`: the text between the quotes is not yet the value.
    Text {
        escaped: bool,
    },
    Array,
    Object,
}

/// The place of a node in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

#[derive(Debug)]
struct Node {
    kind: Kind,
    /// Its bytes; those of a text without the quotes.
    start: usize,
    end: usize,
    /// The node after its last descendant.
    after: usize,
}

/// A whole, valid JSON text.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Document<'a> {
    /// Scans `text`, which must be one JSON value (RFC 8259) and white space.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Fault> {
        Ok(Self { text, nodes: scan::nodes(text)? })
    }

    /// The text, whole.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// The outermost value.
    pub(crate) fn root(&self) -> Place {
        Place(0)
    }

    pub(crate) fn kind(&self, place: Place) -> Kind {
        self.nodes[place.0].kind
    }

    /// The node as written; a text without its quotes.
    pub(crate) fn raw(&self, place: Place) -> &'a str {
        let node = &self.nodes[place.0];
        &self.text[node.start..node.end]
    }

    /// Where the node's text ends in the document's.
    pub(crate) fn end(&self, place: Place) -> usize {
        self.nodes[place.0].end
    }

    /// The value of a text.
    pub(crate) fn decoded(&self, place: Place) -> Cow<'a, str> {
        match self.kind(place) {
            Kind::Text { escaped: true } => Cow::Owned(text::unescape(self.raw(place))),
            _ => Cow::Borrowed(self.raw(place)),
        }
    }

    /// The elements of an array, in order.
    pub(crate) fn elements(&self, place: Place) -> impl Iterator<Item = Place> + use<'_, 'a> {
        let end = self.nodes[place.0].after;
        let mut next = place.0 + 1;
        std::iter::from_fn(move || {
            let here = (next < end).then_some(next)?;
            next = self.nodes[here].after;
            Some(Place(here))
        })
    }

    /// The names and values of an object, in order, repeated names included.
    pub(crate) fn members(&self, place: Place) -> impl Iterator<Item = (Place, Place)> + use<'_, 'a> {
        let mut nodes = self.elements(place);
        std::iter::from_fn(move || Some((nodes.next()?, nodes.next()?)))
    }

    /// The values of the members of that name, in order; none where `place` is no object.
    pub(crate) fn named<'s>(&'s self, place: Place, name: &'s str) -> impl Iterator<Item = Place> + use<'s, 'a> {
        let object = (self.kind(place) == Kind::Object).then(|| self.members(place));
        object.into_iter().flatten().filter(move |(n, _)| self.is(*n, name)).map(|(_, value)| value)
    }

    fn is(&self, place: Place, value: &str) -> bool {
        match self.kind(place) {
            Kind::Text { escaped: false } => self.raw(place) == value,
            _ => self.decoded(place) == value,
        }
    }
}
