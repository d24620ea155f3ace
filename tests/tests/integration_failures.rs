//! Messages and handlers that fail, end to end on the embedded broker and SQLite.

mod failures {
    pub mod jobs;
    mod attempts;
    mod keys;
    mod poison;
}
