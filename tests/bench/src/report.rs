//! What is printed and written.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::field::RATIOS;
use crate::outbox;
use crate::purge;
use crate::results::{Results, Spread};

/// Beside the rounds: numbers that are measured once.
pub type Extras = BTreeMap<&'static str, f64>;

/// The table, in Markdown, which is also read in a terminal.
pub fn table(results: &Results, extras: &Extras) -> String {
    let mut text = format!("| {:<18} | {:>8} | {:>19} |\n", "", "jobs/s", "least to most");
    let _ = writeln!(text, "|{:-<20}|{:->9}:|{:->20}:|", "", "", "");
    for (name, rates) in results.lines() {
        let Some(Spread { median, least, most }) = Spread::of(rates) else { continue };
        let _ = writeln!(text, "| {name:<18} | {median:>8.0} | {:>19} |", format!("{least:.0} to {most:.0}"));
    }
    let _ = writeln!(text, "\n| {:<21} | {:>8} | {:>16} |", "", "ratio", "least to most");
    let _ = writeln!(text, "|{:-<23}|{:->9}:|{:->17}:|", "", "", "");
    for (name, Spread { median, least, most }) in results.ratios(&ratios()) {
        let _ = writeln!(text, "| {name:<21} | {median:>8.2} | {:>16} |", format!("{least:.2} to {most:.2}"));
    }
    for (name, value) in extras {
        let _ = writeln!(text, "| {name:<21} | {value:>8.2} | {:>16} |", "");
    }
    text
}

/// The last line: the ratios alone.
pub fn line(results: &Results, extras: &Extras) -> Value {
    let ratios = results.ratios(&ratios()).into_iter().map(|(name, ratio)| (name, ratio.median));
    let all = ratios.chain(extras.iter().map(|(name, value)| (*name, *value)));
    Value::Object(all.map(|(name, value)| (name.to_owned(), rounded(value))).collect())
}

/// The same, and every round's jobs per second.
pub fn everything(results: &Results, extras: &Extras) -> Value {
    let rounds: Map<_, _> = results.lines().map(|(name, rates)| (name.to_owned(), json!(rates))).collect();
    json!({ "ratios": line(results, extras), "jobs_per_second": rounds })
}

/// Those of the jobs, of the outbox and of the purge.
fn ratios() -> Vec<(&'static str, &'static str, &'static str)> {
    RATIOS.iter().chain(&outbox::RATIOS).chain(&purge::RATIOS).copied().collect()
}

fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}
