//! What the numbers were measured on.

use std::env;
use std::fs;
use std::thread::available_parallelism;

use sqlx::Connection;

use crate::Failure;
use crate::postgres::Postgres;

/// Processor, memory, versions and commit, as a list in Markdown.
pub async fn describe(server: &str) -> Result<String, Failure> {
    let cores = available_parallelism()?;
    let processor = first("/proc/cpuinfo", "model name").unwrap_or_else(|| env::consts::ARCH.to_owned());
    let memory = first("/proc/meminfo", "MemTotal").and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.map_or_else(|| "unknown".to_owned(), |kib| format!("{} GiB", kib.div_ceil(1024 * 1024)));
    let told = |name| env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    Ok(format!(
        "* {processor}, {cores} cores, {memory} of memory; the servers and whoever is measured share it\n\
         * Apache Kafka {}, PostgreSQL {}, {}\n\
         * commit {}\n",
        told("BENCH_KAFKA"),
        version(server).await?,
        told("BENCH_RUSTC"),
        told("BENCH_COMMIT"),
    ))
}

async fn version(server: &str) -> Result<String, Failure> {
    let mut conn = Postgres::at(server).connect().await?;
    let version = sqlx::query_scalar("SELECT current_setting('server_version')").fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(version)
}

/// The first value of `name : value` lines.
fn first(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
