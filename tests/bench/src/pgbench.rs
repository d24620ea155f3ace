//! PostgreSQL's own benchmark: what the server can do when nobody reads Kafka or JSON.

use std::process::{Command, Stdio};

use crate::Failure;

const MISSING: &str = "pgbench is missing: on Debian, apt-get install postgresql-contrib (or postgresql)";

/// A script, and what one run of it is worth.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    pub file: &'static str,
    pub jobs_per_transaction: u64,
}

pub const SINGLE: Script =
    Script { file: concat!(env!("CARGO_MANIFEST_DIR"), "/pgbench/single.sql"), jobs_per_transaction: 1 };

pub const SHARED: Script =
    Script { file: concat!(env!("CARGO_MANIFEST_DIR"), "/pgbench/shared.sql"), jobs_per_transaction: 100 };

/// Runs the script for at least so many jobs; jobs done, and jobs per second.
pub fn run(database: &str, script: Script, clients: usize, jobs: u64) -> Result<(u64, f64), Failure> {
    let each = jobs.div_ceil(clients as u64 * script.jobs_per_transaction);
    let output = Command::new(program()?)
        .args(["--protocol=prepared", "--no-vacuum", "--jobs=2"])
        .args([format!("--client={clients}"), format!("--transactions={each}"), format!("--file={}", script.file)])
        .arg(database)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("pgbench ended with {}", output.status).into());
    }
    let tps = tps(&String::from_utf8(output.stdout)?).ok_or("pgbench told no transactions per second")?;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let rate = tps * script.jobs_per_transaction as f64;
    Ok((each * clients as u64 * script.jobs_per_transaction, rate))
}

/// `tps = 4321.0 (without initial connection time)`
fn tps(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

/// In the PATH, or where Debian keeps it; the newest there.
pub fn program() -> Result<String, Failure> {
    if Command::new("pgbench").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return Ok("pgbench".to_owned());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").map_err(|_| MISSING)?;
    let mut found: Vec<_> = versions.flatten().map(|version| version.path().join("bin/pgbench")).collect();
    found.retain(|path| path.exists());
    found.sort();
    Ok(found.pop().ok_or(MISSING)?.display().to_string())
}
