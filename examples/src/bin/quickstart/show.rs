//! The run, from the file to the result.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Failure;
use crate::cli::Arguments;
use crate::cluster::Cluster;
use crate::format::{counted, grouped};
use crate::jobs::Order;
use crate::kills::{KILLS, Kills};
use crate::ledger::{Ledger, Tally};
use crate::orders::{self, Line};
use crate::place::Place;
use crate::plan::plan;
use crate::process::{Heard, Process};
use crate::progress::Progress;
use crate::report::Summary;
use crate::send::{Sender, send};

/// Runs and prints; whether all was right.
#[tokio::main]
pub async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let lines = orders::read(&file(arguments))?;
    // What is dropped when interrupted ends the worker and removes the temporary folder.
    let summary = tokio::select! {
        summary = show(&lines) => summary?,
        signal = interrupted() => return Err(format!("interrupted by {}", signal?).into()),
    };
    if arguments.json {
        println!("{}", summary.json()?);
    } else {
        println!("{summary}");
    }
    Ok(summary.is_right())
}

fn file(arguments: &Arguments) -> PathBuf {
    let kept = || Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cdnow-orders.csv");
    arguments.csv.clone().unwrap_or_else(kept)
}

async fn show(lines: &[Line]) -> Result<Summary, Failure> {
    let run = run_id();
    let place = Place::open(&run)?;
    let ledger = Ledger::open(&place.database_url).await?;
    let cluster = Arc::new(Cluster::open(&place).await?);
    let messages = plan(lines.len());
    let sent = messages.len();
    eprintln!("{} orders on {}, {} messages", grouped(counted(lines.len())), place.name(), grouped(counted(sent)));

    let mut stage = Stage::open(&place, cluster)?;
    stage.settle_what_is_left().await?;
    stage.heard.forget();
    let (limit, may_send) = watch::channel(Kills::new(sent).may_send());
    let sending = tokio::spawn(send(Sender::open(&place)?, messages_of(&run, lines), messages, may_send));
    let kills = stage.work(sent, &limit, sending).await?;
    let duplicates = stage.close().await?;
    Ok(summary(lines, sent, duplicates, kills, &ledger.tally(&run, lines).await?))
}

/// A worker at work, and those who watch it.
struct Stage<'a> {
    place: &'a Place,
    cluster: Arc<Cluster>,
    heard: Arc<Heard>,
    worker: Process,
    stir: Stir,
}

/// The task that sends.
type Sending = JoinHandle<Result<(), Failure>>;

/// When something last moved.
struct Stir {
    settled: usize,
    kills: usize,
    at: Instant,
}

const TICK: Duration = Duration::from_millis(10);
/// Longer than any takeover.
const PATIENCE: Duration = Duration::from_secs(60);

impl<'a> Stage<'a> {
    fn open(place: &'a Place, cluster: Arc<Cluster>) -> Result<Self, Failure> {
        let heard = Arc::new(Heard::default());
        let worker = Process::start(place, &heard)?;
        Ok(Self { place, cluster, heard, worker, stir: Stir { settled: 0, kills: 0, at: Instant::now() } })
    }

    /// An earlier run that was interrupted may have left messages, which are not of this one.
    async fn settle_what_is_left(&mut self) -> Result<(), Failure> {
        while !self.worker.at_work() || self.unsettled().await? > 0 {
            self.tick(0).await?;
        }
        Ok(())
    }

    /// Watches until everything sent is settled, and kills the worker when it is due.
    async fn work(
        &mut self,
        sent: usize,
        limit: &watch::Sender<usize>,
        mut sending: Sending,
    ) -> Result<usize, Failure> {
        let progress = Progress::of(sent);
        let mut kills = Kills::new(sent);
        let mut all_sent = false;
        while !all_sent || self.heard.settled() < sent || self.unsettled().await? > 0 {
            self.tick(kills.made()).await?;
            progress.show(self.heard.settled(), self.heard.duplicates());
            if kills.due().is_some_and(|due| self.worker.at_work() && self.heard.settled() >= due) {
                self.kill(&mut kills, &progress)?;
                limit.send_replace(kills.may_send());
            }
            if !all_sent && sending.is_finished() {
                (&mut sending).await??;
                all_sent = true;
            }
        }
        Ok(kills.made())
    }

    fn kill(&mut self, kills: &mut Kills, progress: &Progress) -> Result<(), Failure> {
        self.worker.kill()?;
        self.worker = Process::start(self.place, &self.heard)?;
        kills.make();
        let settled = grouped(counted(self.heard.settled()));
        progress.say(&format!(
            "worker killed ({} of {KILLS}) after {settled} deliveries; the next one takes over",
            kills.made()
        ));
        Ok(())
    }

    /// Waits a little; a worker that ended, or that does nothing for long, ends the run.
    async fn tick(&mut self, kills: usize) -> Result<(), Failure> {
        tokio::time::sleep(TICK).await;
        self.worker.check()?;
        let settled = self.heard.settled();
        if (settled, kills) != (self.stir.settled, self.stir.kills) {
            self.stir = Stir { settled, kills, at: Instant::now() };
        }
        if self.stir.at.elapsed() > PATIENCE {
            return Err(format!("nothing was settled for {PATIENCE:?}, after {settled} deliveries").into());
        }
        Ok(())
    }

    async fn unsettled(&self) -> Result<i64, Failure> {
        let cluster = Arc::clone(&self.cluster);
        Ok(tokio::task::spawn_blocking(move || cluster.unsettled()).await??)
    }

    /// Ends the worker in order; the duplicates it and those before it skipped.
    async fn close(self) -> Result<u64, Failure> {
        let Self { heard, worker, .. } = self;
        worker.stop().await?;
        Ok(heard.duplicates() as u64)
    }
}

fn summary(lines: &[Line], sent: usize, duplicates: u64, kills: usize, tally: &Tally) -> Summary {
    Summary {
        orders: lines.len() as u64,
        sent: sent as u64,
        delivered: tally.effects + duplicates,
        duplicates,
        kills: kills as u64,
        cents: tally.cents,
        lost: tally.lost,
        doubled: tally.doubled,
        expected_cents: lines.iter().map(|line| line.amount_cents).sum(),
        wrong: tally.wrong,
    }
}

fn messages_of(run: &str, lines: &[Line]) -> Arc<[Order]> {
    let message = |line: &Line| Order {
        run: run.to_owned(),
        order_id: line.order_id,
        customer_id: line.customer_id,
        ordered_on: line.ordered_on.clone(),
        quantity: line.quantity,
        amount_cents: line.amount_cents,
    };
    lines.iter().map(message).collect()
}

/// Unlike that of any other run, on this machine or another.
fn run_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", now.as_nanos(), process::id())
}

async fn interrupted() -> std::io::Result<&'static str> {
    #[cfg(unix)]
    {
        let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed.map(|()| "Ctrl-C"),
            _ = terminated.recv() => Ok("SIGTERM"),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map(|()| "Ctrl-C")
}
