//! Who knows which foreign thing.

use std::fs;
use std::process::Command;

use super::source::{File, files, root};

/// Lines of code in `wrong` files that contain one of the words.
fn find(words: &[&str], wrong: impl Fn(&File) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in files().iter().filter(|file| !file.is_test() && wrong(file)) {
        for (number, line) in file.code().filter(|(_, line)| words.iter().any(|word| line.contains(word))) {
            found.push(format!("{}:{number}: {}", file.path, line.trim()));
        }
    }
    found
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn only_the_store_knows_sqlx_and_sql() {
    none(&find(&["sqlx", "INSERT INTO", "SELECT ", "DELETE FROM", "CREATE TABLE"], |file| file.module() != "store"));
}

#[test]
fn only_the_kafka_port_knows_rdkafka() {
    none(&find(&["rdkafka"], |file| file.module() != "kafka"));
}

/// Time and chance are passed in, so that they can be tested whole.
#[test]
fn pure_files_know_no_clock_no_async_and_no_sql() {
    const PURE: &[&str] = &[
        "engine/lanes.rs",
        "engine/offsets.rs",
        "engine/settle.rs",
        "outbox/relay/window.rs",
        "outbox/relay/topics.rs",
        "outbox/relay/shares.rs",
        "outbox/relay/judge.rs",
        "outbox/relay/pace.rs",
        "retention/holdups.rs",
        "retention/rule.rs",
        "retention/terms.rs",
        "retry.rs",
        "key.rs",
        "fingerprint.rs",
        "json.rs",
    ];
    let words = ["tokio", "async ", ".await", "Instant::now", "SystemTime::now", "rand::", "sqlx"];
    for path in PURE {
        let stem = path.trim_end_matches(".rs");
        let there = files().iter().any(|file| file.path == *path || file.path == format!("{stem}/mod.rs"));
        assert!(there, "{path} is gone: name the pure files here");
    }
    none(&find(&words, |file| {
        PURE.iter()
            .any(|path| file.path == *path || file.path.starts_with(&format!("{}/", path.trim_end_matches(".rs"))))
    }));
}

/// Whoever spawns owns the end of what was spawned: few may.
#[test]
fn only_the_engine_and_those_who_start_it_spawn() {
    let may = ["engine/mod.rs", "engine/work.rs", "serve.rs"];
    // A port's own thread, and its blocking calls, are ended by the port.
    none(&find(&["spawn("], |file| !may.contains(&file.path.as_str()) && !["kafka", "store"].contains(&file.module())));
}

/// A project that names folders of one machine works on that machine only.
#[test]
fn no_file_names_a_folder_of_a_machine() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git is there");
    assert!(listed.status.success(), "this is a checkout");
    let mut found = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|path| !path.is_empty()) {
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        let words = ["/home", "/work", "/root", "/Users"].map(|folder| format!("{folder}/"));
        let lines = text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| starts_a_path(line, word)));
        found.extend(lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    none(&found);
}

/// An absolute path, but neither the end of a relative one nor that of a URL.
fn starts_a_path(line: &str, folder: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "./_-}>".contains(c));
    line.match_indices(folder).any(|(at, _)| begins(at))
}
