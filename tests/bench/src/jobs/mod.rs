//! The jobs that are measured. Their topics are those of `load.rs`.

mod single;
