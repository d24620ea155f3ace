//! A measured process: this program again, which tells its numbers at its end.

use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::options::Measured;
use crate::progress::Told;

/// Starts `bench MODE…` with what every measured process is told, and waits for its numbers.
pub fn run(mode: &[&str], measured: &Measured) -> Result<Told, Failure> {
    let output = command(mode, measured)?.output()?;
    if !output.status.success() {
        return Err(format!("`bench {}` ended with {}", mode.join(" "), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Starts it, to be ended by closing its input.
pub fn start(mode: &[&str], measured: &Measured) -> Result<Child, Failure> {
    Ok(command(mode, measured)?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?)
}

fn command(mode: &[&str], measured: &Measured) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(mode)
        .args(["--database", &measured.database, "--brokers", &measured.brokers])
        .args(["--group", &measured.group, "--topic", &measured.topic])
        .args(["--messages", &measured.messages.to_string(), "--connections", &measured.connections.to_string()])
        .env_remove("KAFKA_BROKERS")
        .env_remove("DATABASE_URL")
        .stderr(Stdio::inherit());
    Ok(command)
}
