//! Text to nodes: the grammar of RFC 8259, nothing more lenient.

use std::fmt;

use super::{Kind, MAX_DEPTH, Node};

/// Where a text is not JSON. Says what was wrong, never what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    what: &'static str,
    line: usize,
    column: usize,
}

impl Fault {
    fn new(what: &'static str, text: &str, at: usize) -> Self {
        let before = &text.as_bytes()[..at];
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        Self { what, line: before.iter().filter(|byte| **byte == b'\n').count() + 1, column: at - start + 1 }
    }
}

/// Columns count bytes from 1, as in `serde_json`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.what, self.line, self.column)
    }
}

/// Every node of `text`, each container before what it holds.
pub(super) fn nodes(text: &str) -> Result<Vec<Node>, Fault> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, nodes: Vec::with_capacity(text.len() / 8 + 4) };
    match scan.document() {
        Ok(()) => Ok(scan.nodes),
        Err(what) => Err(Fault::new(what, text, scan.at)),
    }
}

type Step = Result<(), &'static str>;

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Scan<'_> {
    fn document(&mut self) -> Step {
        self.value(0)?;
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err("something follows the value") }
    }

    fn value(&mut self, depth: usize) -> Step {
        self.space();
        match self.peek() {
            Some(b'{') => self.container(depth, Kind::Object, b'}'),
            Some(b'[') => self.container(depth, Kind::Array, b']'),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Kind::Bool),
            Some(b'f') => self.word("false", Kind::Bool),
            Some(b'n') => self.word("null", Kind::Null),
            Some(_) => Err("a value is needed"),
            None => Err("the payload ends where a value is needed"),
        }
    }

    fn container(&mut self, depth: usize, kind: Kind, close: u8) -> Step {
        if depth == MAX_DEPTH {
            return Err("more than 127 arrays and objects lie in each other");
        }
        let index = self.nodes.len();
        self.nodes.push(Node { kind, start: self.at, end: 0, after: 0 });
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
        } else {
            self.entries(depth, kind, close)?;
        }
        self.nodes[index].end = self.at;
        self.nodes[index].after = self.nodes.len();
        Ok(())
    }

    fn entries(&mut self, depth: usize, kind: Kind, close: u8) -> Step {
        loop {
            if kind == Kind::Object {
                self.name()?;
            }
            self.value(depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => return Err("a comma or the closing bracket is needed"),
                None => return Err("the payload ends inside an array or object"),
            }
        }
    }

    fn name(&mut self) -> Step {
        self.space();
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(_) => return Err("a member's name in quotes is needed"),
            None => return Err("the payload ends inside an object"),
        }
        self.space();
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(_) => return Err("a colon is needed after a member's name"),
            None => return Err("the payload ends inside an object"),
        }
        Ok(())
    }

    fn string(&mut self) -> Step {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.at..];
            let run = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
            self.at += run.unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return Err("a control character stands unescaped in a string"),
                None => return Err("the payload ends inside a string"),
            }
            escaped = true;
        }
        self.leaf(Kind::Text { escaped }, start);
        self.at += 1;
        Ok(())
    }

    /// One escape; a surrogate pair counts as one, half a pair is no character and refused.
    fn escape(&mut self) -> Step {
        self.at += 2;
        match self.bytes.get(self.at - 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(()),
            Some(b'u') => {}
            Some(_) => {
                self.at -= 1;
                return Err("an unknown escape stands in a string");
            }
            None => {
                self.at = self.bytes.len();
                return Err("the payload ends inside a string");
            }
        }
        match self.hex()? {
            0xD800..=0xDBFF if self.bytes[self.at..].starts_with(b"\\u") => {
                self.at += 2;
                if matches!(self.hex()?, 0xDC00..=0xDFFF) { Ok(()) } else { Err(HALF) }
            }
            0xD800..=0xDFFF => Err(HALF),
            _ => Ok(()),
        }
    }

    fn hex(&mut self) -> Result<u32, &'static str> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            value = value * 16 + digit.ok_or("a \\u escape needs four hexadecimal digits")?;
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Step {
        let start = self.at;
        self.skip(b"-");
        if !self.skip(b"0") {
            self.digits()?;
        }
        if self.skip(b".") {
            self.digits()?;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits()?;
        }
        self.leaf(Kind::Number, start);
        Ok(())
    }

    fn digits(&mut self) -> Step {
        let rest = &self.bytes[self.at..];
        let run = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += run;
        if run == 0 { Err("a number lacks a digit") } else { Ok(()) }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Step {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err("a value is needed");
        }
        let start = self.at;
        self.at += word.len();
        self.leaf(kind, start);
        Ok(())
    }

    fn leaf(&mut self, kind: Kind, start: usize) {
        self.nodes.push(Node { kind, start, end: self.at, after: self.nodes.len() + 1 });
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn skip(&mut self, any: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| any.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

const HALF: &str = "a \\u escape is half of a surrogate pair";
