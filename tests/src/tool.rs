//! The operator's tool, run as a process.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::child;
use crate::world::World;

/// What a run of the tool came to.
#[derive(Debug)]
pub struct Told {
    /// Its exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The tool with these arguments, in an environment that names nothing.
pub fn tool(arguments: &[&str]) -> Command {
    let mut command = child::command("operator");
    command.args(arguments).env("USER", "ann").stdin(Stdio::null());
    command
}

/// Runs it.
///
/// # Panics
/// When it cannot be started, or is struck down.
pub fn told(command: &mut Command) -> Told {
    let output = command.output().expect("the tool starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("the tool ends by itself");
    Told { code, out: text(&output.stdout), err: text(&output.stderr) }
}

impl World {
    /// Runs the tool in this world; what it said, and its code.
    ///
    /// # Panics
    /// When it ends with another code.
    pub fn tool(&self, code: i32, arguments: &[&str]) -> Told {
        let mut command = tool(arguments);
        command.env("DATABASE_URL", self.database.url()).env("KAFKA_BROKERS", self.broker.servers());
        let told = told(command.env("KAFKA_GROUP_ID", &self.group));
        assert_eq!(told.code, code, "{arguments:?}: {told:?}");
        told
    }
}

impl Told {
    /// Standard output as JSON lines.
    ///
    /// # Panics
    /// When a line is none.
    pub fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
    }

    /// # Panics
    /// When one of these words was not said.
    pub fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "`{word}` is not in {self:?}");
        }
    }

    /// # Panics
    /// When one of these words was said.
    pub fn hides(&self, words: &[&str]) {
        for word in words {
            assert!(!self.out.contains(word) && !self.err.contains(word), "`{word}` is in {self:?}");
        }
    }
}
