//! Attempts that are counted once, whoever makes them.
