//! The expansions as a reader of `cargo expand` sees them.
