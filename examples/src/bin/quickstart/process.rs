//! The worker process, from outside: started, listened to, killed.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::place::Place;
use crate::reports::Report;

/// What all worker processes of a run reported.
#[derive(Debug, Default)]
pub struct Heard {
    done: AtomicUsize,
    duplicates: AtomicUsize,
}

impl Heard {
    pub fn duplicates(&self) -> usize {
        self.duplicates.load(Ordering::SeqCst)
    }

    /// Deliveries whose outcome is known.
    pub fn settled(&self) -> usize {
        self.done.load(Ordering::SeqCst) + self.duplicates()
    }

    /// Forgets what came before the run.
    pub fn forget(&self) {
        self.done.store(0, Ordering::SeqCst);
        self.duplicates.store(0, Ordering::SeqCst);
    }

    fn take(&self, report: Report, assigned: &AtomicBool) {
        match report {
            Report::Assigned => assigned.store(true, Ordering::SeqCst),
            Report::Done => _ = self.done.fetch_add(1, Ordering::SeqCst),
            Report::Duplicate => _ = self.duplicates.fetch_add(1, Ordering::SeqCst),
        }
    }
}

/// One running worker. Dropping it kills it.
pub struct Process {
    child: Child,
    leash: Option<ChildStdin>,
    ears: Vec<JoinHandle<()>>,
    assigned: Arc<AtomicBool>,
    last_words: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts this executable again, as the worker.
    pub fn start(place: &Place, heard: &Arc<Heard>) -> Result<Self, Failure> {
        let mut child = command(place)?.spawn().map_err(|error| format!("the worker process: {error}"))?;
        let (assigned, last_words) = <(Arc<AtomicBool>, Arc<Mutex<VecDeque<String>>>)>::default();
        let leash = child.stdin.take();
        let mut ears = Vec::new();
        ears.extend(child.stdout.take().map(|out| listen(out, Arc::clone(heard), Arc::clone(&assigned))));
        ears.extend(child.stderr.take().map(|err| remember(err, Arc::clone(&last_words))));
        Ok(Self { child, leash, ears, assigned, last_words })
    }

    /// Whether it has partitions.
    pub fn at_work(&self) -> bool {
        self.assigned.load(Ordering::SeqCst)
    }

    /// A worker that ended is a failure, told in its own words.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.ended(status)),
        }
    }

    /// SIGKILL. What it reported before is heard when this returns.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.check()?;
        self.child.kill()?;
        self.child.wait()?;
        self.hear_out();
        Ok(())
    }

    /// Lets go, and waits until it has committed and left.
    pub async fn stop(mut self) -> Result<(), Failure> {
        const PATIENCE: Duration = Duration::from_secs(30);
        drop(self.leash.take());
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => return Err(self.ended(status)),
                None if Instant::now() > deadline => {
                    return Err(format!("the worker did not end within {PATIENCE:?}").into());
                }
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        self.hear_out();
        Ok(())
    }

    fn ended(&mut self, status: ExitStatus) -> Failure {
        self.hear_out();
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = words.iter().map(|line| format!("\n  {line}")).collect::<String>();
        format!("the worker ended by itself ({status}):{words}").into()
    }

    fn hear_out(&mut self) {
        for ear in self.ears.drain(..) {
            let _ = ear.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(place: &Place) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    if place.embedded.is_some() {
        // Meant for servers: the embedded broker knows no TLS and no passwords.
        let meant_for_servers =
            std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("KAFKA_"));
        meant_for_servers.for_each(|name| _ = command.env_remove(name));
    }
    command
        .args(["worker", place.job()])
        .env("KAFKA_BROKERS", &place.brokers)
        .env("KAFKA_GROUP_ID", &place.group)
        .env("DATABASE_URL", &place.database_url)
        .envs(place.worker_env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

fn listen(out: impl Read + Send + 'static, heard: Arc<Heard>, assigned: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.filter_map(|line| Report::read(&line)).for_each(|report| heard.take(report, &assigned));
    })
}

/// Kept for when it ends by itself; shown at once to those who ask for a log with `RUST_LOG`.
fn remember(err: impl Read + Send + 'static, last_words: Arc<Mutex<VecDeque<String>>>) -> JoinHandle<()> {
    const LINES: usize = 30;
    let shown = std::env::var_os("RUST_LOG").is_some();
    std::thread::spawn(move || {
        for line in BufReader::new(err).lines().map_while(Result::ok) {
            if shown {
                eprintln!("{line}");
            }
            let mut words = last_words.lock().unwrap_or_else(PoisonError::into_inner);
            words.push_back(line);
            if words.len() > LINES {
                words.pop_front();
            }
        }
    })
}
