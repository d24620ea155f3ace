//! What the tests of this workspace stand on: a broker, a database, programs to kill, and a
//! record of what happened to each message.
//!
//! Nothing here sleeps to wait: whoever waits names a condition and a deadline, and fails with
//! what was seen instead.

pub mod broker;
pub mod child;
pub mod crash;
pub mod database;
pub mod events;
pub mod letters;
pub mod misbehaviour;
pub mod order;
pub mod outbox;
pub mod poison;
pub mod proxy;
pub mod rebalance;
pub mod servers;
pub mod tool;
pub mod worker;
pub mod world;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::Runtime;

/// How long anything may take that takes moments when it works. A busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The tests are plain functions; their clients run here.
pub fn wait_for<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime for the tests' clients")).block_on(future)
}

/// The README's code, compiled, so that what people copy builds.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
