//! The worker process: the job, configured by the environment, until its parent lets go.

use std::io::Read as _;

use idempotent_jobs::Worker;

use crate::{Failure, reports};

/// Runs the job until stdin ends, which it does whatever way the parent goes.
#[tokio::main]
pub async fn run(job: &str) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::builder()
                .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
                .from_env_lossy(),
        )
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    reports::install()?;
    Ok(Worker::from_env().jobs([job]).shutdown_on(parent_let_go()).run().await?)
}

async fn parent_let_go() {
    // A thread of its own: a read of stdin cannot be called off, and must not hold the runtime.
    let (gone, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = gone.send(());
    });
    let _ = told.await;
}
