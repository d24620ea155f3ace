//! Tests of the workspace: what needs more than one package, and the README's code.

/// Compiled, so that what people copy builds.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
