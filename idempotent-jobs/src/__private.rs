//! What generated code may name. Not covered by semantic versioning: the macro crate pins
//! this one's exact version.

use std::future::Future;

pub use inventory;
pub use std::option::Option;
pub use std::vec::Vec;

pub use crate::context::{Context, Handle, Isolation};
pub use crate::extract::{Extract, ExtractBatch};
pub use crate::job::{Declaration, Ordering, Running};
pub use crate::key::{KeyPart, KeyValue, Part};
pub use crate::outgoing::{JobMessage, message};
pub use crate::registry::{Registered, Registration, register};

pub use crate::error::Fate;

use crate::error::{JobError, JobResult};

/// What a job may return.
#[diagnostic::on_unimplemented(
    message = "a job returns `JobResult`, not `{Self}`",
    label = "write `JobResult`; any error becomes a `JobError` by `?`"
)]
pub trait Returned {
    /// The result itself.
    ///
    /// # Errors
    /// The handler's own.
    fn result(self) -> JobResult;
}

impl Returned for Result<(), JobError> {
    fn result(self) -> JobResult {
        self
    }
}

/// Erases the type of a handler's future.
pub fn boxed<'a>(running: impl Future<Output = JobResult> + Send + 'a) -> Running<'a> {
    Box::pin(running)
}

/// Stands for the entry of a handler that cannot be called, beside the error that says why.
pub fn no_entry<'a, H, P, C: ?Sized>(_: &'a mut H, _: P, _: &'a C) -> Running<'a> {
    unreachable!("a job with a compile error does not run")
}

/// A field of a payload as a part of its key.
pub fn field<P: 'static, T: KeyPart + ?Sized + 'static>(name: &'static str, get: fn(&P) -> &T) -> Part<P> {
    Part::field(name, get)
}

/// The parts of a message's key.
pub fn parts<P, const N: usize>(parts: [Part<P>; N]) -> Vec<Part<P>> {
    Vec::from(parts)
}

/// A text that is part of a key.
pub fn text(text: &'static str) -> KeyValue<'static> {
    KeyValue::Text(text.into())
}

/// Doors for this project's own tests.
pub use crate::engine::probe::{Point, Probe};

/// Kafka's part by itself, for tests.
pub mod kafka {
    pub use crate::kafka::*;
}

/// The purge by itself, for tests that pass the clock in.
pub mod retention {
    pub use crate::retention::{Cleaner, Look, Retention, Swept, problems, walk};
}

/// The port to the databases, for the tests of this workspace.
pub mod store {
    pub use crate::context::Isolation;
    pub use crate::error::Rejection;
    pub use crate::fingerprint::Fingerprint;
    pub use crate::key::Key;
    pub use crate::store::*;
}
