//! Who imports whom.

use super::source::{File, files};

/// The layers of ARCHITECTURE.md, lowest first. A module may import its own layer and those below.
const LAYERS: &[(&str, &[&str])] = &[
    ("words", &["error", "message", "key", "json", "fingerprint", "config", "telemetry", "trace", "health"]),
    ("declare", &["codec", "context", "extract", "job", "job_id", "outgoing", "registry", "retry"]),
    ("ports", &["store", "kafka"]),
    ("engine", &["engine", "outbox", "dead_letters", "retention"]),
    ("surface", &["worker", "relay", "once", "start", "serve", "lib", "__private", "testing", "doctor", "cli", "bin"]),
];

fn layer(module: &str) -> usize {
    let of = |(_, modules): &(&str, &[&str])| modules.contains(&module);
    LAYERS
        .iter()
        .position(of)
        .unwrap_or_else(|| panic!("module `{module}` is in no layer: give it one here and in ARCHITECTURE.md"))
}

/// The modules of ours that a line of code names: `crate::error::Error` names `error`.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let modules = line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with('$'));
    modules.filter_map(|(at, found)| {
        let rest = &line[at + found.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        // Types are re-exported at the top; only modules are lower case.
        (name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')).then_some(name)
    })
}

fn crosses(file: &File) -> Vec<String> {
    let own = layer(file.module());
    let mut found = Vec::new();
    for (number, line) in file.code() {
        for name in named(line).filter(|name| layer(name) > own) {
            let (from, to) = (LAYERS[own].0, LAYERS[layer(name)].0);
            found.push(format!("{}:{number}: {from} imports `{name}`, which is above it ({to})", file.path));
        }
    }
    found
}

#[test]
fn dependencies_point_downward_only() {
    let found: Vec<_> = files().iter().filter(|file| !file.is_test()).flat_map(crosses).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The ports carry messages and claims; what a job is they do not know.
#[test]
fn ports_never_import_jobs() {
    let job = |line: &str| named(line).any(|name| ["registry", "codec", "extract"].contains(&name));
    let ports = files().into_iter().filter(|file| ["store", "kafka"].contains(&file.module()) && !file.is_test());
    for file in ports {
        let found: Vec<_> = file.code().filter(|(_, line)| job(line)).collect();
        assert!(found.is_empty(), "{}: {found:?}", file.path);
    }
}

#[test]
fn ports_do_not_know_each_other() {
    for file in files().iter().filter(|file| !file.is_test()) {
        let other = match file.module() {
            "store" => "kafka",
            "kafka" => "store",
            _ => continue,
        };
        let found: Vec<_> = file.code().filter(|(_, line)| named(line).any(|name| name == other)).collect();
        assert!(found.is_empty(), "{}: {found:?}", file.path);
    }
}
