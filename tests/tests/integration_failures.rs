//! Messages and handlers that fail, end to end on the embedded broker and SQLite.

mod failures {
    mod attempts;
    mod decisions;
    pub mod jobs;
    mod keys;
    mod letters;
    mod poison;
}
