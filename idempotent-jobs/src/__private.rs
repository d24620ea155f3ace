//! What generated code may name. Not covered by semantic versioning: the macro crate pins
//! this one's exact version.

pub use inventory;

pub use crate::context::{Context, Handle};
pub use crate::extract::Extract;
pub use crate::job::{Declaration, Isolation, Running};
pub use crate::key::{KeyPart, KeyValue, Part};
pub use crate::outgoing::JobMessage;
pub use crate::registry::{Registered, Registration};

/// Kafka's part by itself, for tests.
pub mod kafka {
    pub use crate::kafka::*;
}
