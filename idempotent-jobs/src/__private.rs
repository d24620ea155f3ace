//! What generated code may name. Not covered by semantic versioning: the macro crate pins
//! this one's exact version.

pub use inventory;

pub use crate::context::{Context, Handle, Isolation};
pub use crate::extract::Extract;
pub use crate::job::{Declaration, Running};
pub use crate::key::{KeyPart, KeyValue, Part};
pub use crate::outgoing::JobMessage;
pub use crate::registry::{Registered, Registration};

/// Doors for this project's own tests.
pub use crate::engine::probe::{Point, Probe};

/// Kafka's part by itself, for tests.
pub mod kafka {
    pub use crate::kafka::*;
}

/// The port to the databases, for the tests of this workspace.
pub mod store {
    pub use crate::fingerprint::Fingerprint;
    pub use crate::context::Isolation;
    pub use crate::key::Key;
    pub use crate::store::*;
}
