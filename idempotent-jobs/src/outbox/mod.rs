//! Records that are sent because a transaction was committed, and not otherwise.

pub(crate) mod relay;
