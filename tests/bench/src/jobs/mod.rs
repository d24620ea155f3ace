//! The jobs that are measured. Their topics are those of `load.rs` and `memory.rs`.

mod grouped;
mod single;
