//! What generated code may name. Not covered by semantic versioning: the macro crate pins
//! this one's exact version.

pub use inventory;

pub use crate::context::{Context, Handle};
pub use crate::extract::Extract;
pub use crate::job::{Declaration, Isolation, Running};
pub use crate::key::{KeyPart, KeyValue, Part};
pub use crate::outgoing::JobMessage;
pub use crate::registry::{Registered, Registration};

/// The port to the databases, for the tests of this workspace.
pub mod store {
    pub use crate::fingerprint::Fingerprint;
    pub use crate::job::Isolation;
    pub use crate::key::Key;
    pub use crate::store::*;
}
