//! Reads the orders. Every line is checked before anything is sent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::Path;

use crate::cut::cut;
use crate::format::grouped;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub order_id: i64,
    pub customer_id: i64,
    pub ordered_on: String,
    pub quantity: i64,
    pub amount_cents: i64,
}

/// The columns, in their order.
pub const COLUMNS: [&str; 5] = ["order_id", "customer_id", "ordered_on", "quantity", "amount_cents"];

/// What is wrong with a file: the numbers of its bad lines, from 1, and why.
#[derive(Debug)]
pub struct BadFile {
    name: String,
    mistakes: Vec<Mistake>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    line: usize,
    why: String,
}

/// Reads and checks the whole file.
pub fn read(path: &Path) -> Result<Vec<Line>, crate::Failure> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    Ok(parse(&bytes).map_err(|mistakes| BadFile { name, mistakes })?)
}

fn parse(bytes: &[u8]) -> Result<Vec<Line>, Vec<Mistake>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut numbered = (1..).zip(lines(bytes));
    let header = numbered.next().map(|(_, line)| line).unwrap_or_default();
    if let Err(why) = check_header(header) {
        return Err(vec![Mistake { line: 1, why }]);
    }
    let mut checked = Checked::default();
    for (line, text) in numbered {
        checked.take(line, text);
    }
    checked.end()
}

/// Lines without their ends, `\n` or `\r\n`; the last one needs none.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn check_header(line: &[u8]) -> Result<(), String> {
    let expected = COLUMNS.join(",");
    match std::str::from_utf8(line).map(fields) {
        Ok(found) if found == COLUMNS => Ok(()),
        _ if line.is_empty() => Err(format!("the file has no header: it begins with `{expected}`")),
        _ => Err(format!("the header is to be `{expected}`, found `{}`", cut(&String::from_utf8_lossy(line)))),
    }
}

/// The lines so far, and what must hold across them.
#[derive(Default)]
struct Checked {
    orders: Vec<Line>,
    mistakes: Vec<Mistake>,
    first_seen: HashMap<i64, usize>,
    cents: i64,
}

impl Checked {
    fn take(&mut self, line: usize, text: &[u8]) {
        match order(text).and_then(|order| self.fits(line, order)) {
            Ok(order) => self.orders.push(order),
            Err(why) => self.mistakes.push(Mistake { line, why }),
        }
    }

    /// The id is the key: two lines of one id would be one order.
    fn fits(&mut self, line: usize, order: Line) -> Result<Line, String> {
        match self.first_seen.entry(order.order_id) {
            Entry::Occupied(first) => {
                return Err(format!("order_id {} was used on line {} already", order.order_id, first.get()));
            }
            Entry::Vacant(free) => free.insert(line),
        };
        let sum = self.cents.checked_add(order.amount_cents);
        self.cents = sum.ok_or("the amounts up to this line add up to more than 64 bits hold")?;
        Ok(order)
    }

    fn end(self) -> Result<Vec<Line>, Vec<Mistake>> {
        match (self.mistakes.is_empty(), self.orders.is_empty()) {
            (true, false) => Ok(self.orders),
            (true, true) => Err(vec![Mistake { line: 2, why: "the file has no orders".to_owned() }]),
            (false, _) => Err(self.mistakes),
        }
    }
}

fn order(line: &[u8]) -> Result<Line, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Err("the line is empty".to_owned());
    }
    let fields = fields(text);
    let Ok([order_id, customer_id, ordered_on, quantity, amount_cents]) = <[&str; 5]>::try_from(fields) else {
        let found = text.split(',').count();
        return Err(format!("{} columns are needed, found {found}", COLUMNS.len()));
    };
    Ok(Line {
        order_id: number("order_id", order_id)?,
        customer_id: number("customer_id", customer_id)?,
        ordered_on: date(ordered_on)?,
        quantity: number("quantity", quantity)?,
        amount_cents: number("amount_cents", amount_cents)?,
    })
}

/// Numbers and dates need no quotes; where a tool wrote them, they go.
fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).map(|field| unquoted(field).unwrap_or(field)).collect()
}

fn unquoted(field: &str) -> Option<&str> {
    field.strip_prefix('"')?.strip_suffix('"')
}

fn number(column: &str, text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let negative = text.strip_prefix('-').is_some_and(|rest| rest.parse::<u128>().is_ok());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        Err(_) if digits => Err(format!("{column} `{}` is more than {}", cut(text), grouped(i64::MAX))),
        _ if negative => Err(format!("{column} `{}` is negative", cut(text))),
        _ => Err(format!("{column} `{}` is not a whole number", cut(text))),
    }
}

fn date(text: &str) -> Result<String, String> {
    if is_date(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("ordered_on `{}` is not a date like 1997-01-31", cut(text)))
    }
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let part = |range| text.get(range).and_then(|digits: &str| digits.parse::<u32>().ok()).unwrap_or(0);
    shape && (1..=days(part(0..4), part(5..7))).contains(&part(8..10))
}

fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 0,
    }
}

const SHOWN: usize = 10;

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: nothing was sent", self.name)?;
        for Mistake { line, why } in self.mistakes.iter().take(SHOWN) {
            write!(f, "\n  line {line}: {why}")?;
        }
        match self.mistakes.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for BadFile {}

#[cfg(test)]
mod tests;
