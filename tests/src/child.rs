//! Programs under test: started, talked to, struck down.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use idempotent_jobs::__private::Point;
use idempotent_jobs::Coordinates;

use crate::PATIENCE;
use crate::events::{self, Events, Source};

/// A program of this package. Tests build them all; elsewhere `cargo build -p tests --bins` does.
///
/// # Panics
/// When it is not built.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    let folder = own.parent().expect("an executable lies in a folder");
    let folder =
        if folder.ends_with("deps") { folder.parent().expect("`deps` lies in the profile's folder") } else { folder };
    let path = folder.join(name);
    assert!(path.exists(), "{name} is not built: run `cargo build -p tests --bins`");
    path
}

/// A command whose environment says nothing of Kafka and databases but what is set on it.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(program(name));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("KAFKA_") || variable == "DATABASE_URL" {
            command.env_remove(variable);
        }
    }
    command
}

/// A running program. Dropped, it is killed.
pub struct Child {
    pub source: Source,
    process: std::process::Child,
    orders: Option<ChildStdin>,
    halts: usize,
    readers: Vec<JoinHandle<()>>,
    events: Arc<Events>,
}

impl Child {
    /// Starts a program that tells its events on standard output.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut command: Command, source: Source, events: &Arc<Events>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("a program of this package starts");
        let orders = process.stdin.take();
        let out = process.stdout.take().expect("standard output is piped");
        let err = process.stderr.take().expect("standard error is piped");
        let told = Arc::clone(events);
        let out = thread::spawn(move || {
            read(out, source, &told);
            told.end(source);
        });
        let told = Arc::clone(events);
        let err = thread::spawn(move || read(err, source, &told));
        Self { source, process, orders, halts: 0, readers: vec![out, err], events: Arc::clone(events) }
    }

    /// Halts the program when its messages reach `point` for the `nth` time from now.
    pub fn halt_at(&mut self, point: Point, nth: usize) {
        self.halts += 1;
        self.order(&format!("halt {} {nth}", events::word(point)));
        self.heard(&format!("armed {}.", self.halts));
    }

    /// Waits until the program halted; the message that stands still.
    pub fn halted(&self) -> Coordinates {
        let (source, words) = (self.source, format!("halted {}. ", self.halts));
        self.events.wait(&format!("program {source} to halt"), PATIENCE, |seen| {
            let mut lines = seen.said.iter().filter(|(who, _)| *who == source);
            lines.find_map(|(_, line)| Some(events::parse(line.strip_prefix(&words)?)?.1))
        })
    }

    /// Lets a halted program go on.
    pub fn go(&mut self) {
        self.order("go");
    }

    /// Waits until the program wrote a line that contains these words.
    pub fn heard(&self, words: &str) {
        let source = self.source;
        self.events.wait(&format!("program {source} to say `{words}`"), PATIENCE, |seen| {
            seen.has_said(source, words).then_some(())
        });
    }

    /// Waits until the program's messages reached a point so often.
    pub fn heard_of(&self, point: Point, times: usize) {
        self.events.wait_count(self.source, point, times);
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(mut self) {
        self.strike();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Any signal, by name.
    ///
    /// # Panics
    /// When `kill` cannot be run.
    pub fn signal(&self, name: &str) {
        self.events.dismiss(self.source);
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("`kill` is there");
        assert!(sent.success(), "SIG{name} cannot be sent to program {}", self.source);
    }

    /// Waits for the program's own end.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn ended(mut self, limit: Duration) -> ExitStatus {
        self.events.dismiss(self.source);
        let deadline = Instant::now() + limit;
        let source = self.source;
        self.events.wait(&format!("program {source} to end"), limit, |seen| seen.has_ended(source).then_some(()));
        loop {
            // Standard output closes a moment before the process is gone.
            if let Some(status) = self.process.try_wait().expect("a child can be waited for") {
                self.drain();
                return status;
            }
            assert!(Instant::now() < deadline, "program {source} closed its output and lives on");
            thread::yield_now();
        }
    }

    /// SIGTERM, and a clean end.
    ///
    /// # Panics
    /// When it does not end in time, or with another code than 0.
    pub fn stop(self) {
        self.terminate();
        let (source, events) = (self.source, Arc::clone(&self.events));
        let status = self.ended(PATIENCE);
        assert!(status.success(), "program {source} ended with {status}:\n{}", events.seen().describe());
    }

    fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("orders are open while the program runs");
        // A program that just died is noticed by whoever waits for it.
        let _ = writeln!(orders, "{order}");
    }

    fn strike(&mut self) {
        self.events.dismiss(self.source);
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.drain();
    }

    fn drain(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.strike();
    }
}

fn read(from: impl Read, source: Source, events: &Events) {
    for line in BufReader::new(from).lines() {
        let Ok(line) = line else { return };
        match events::parse(&line) {
            Some((point, at)) => events.record(source, point, at),
            None => events.say(source, line),
        }
    }
}
