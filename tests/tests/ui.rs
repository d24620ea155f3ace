//! What the macros accept, and the words with which they refuse.
//!
//! `TRYBUILD=overwrite cargo test -p tests --test ui` writes the `.stderr` files anew. Read each
//! as the user who made the mistake: it points at the token and says what to write.

/// One mistake a file, named after it; the file beside it holds the whole answer.
#[test]
fn mac_02_errors_point_at_the_token() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}

/// Generated code depends on nothing around it, and trips no lint.
#[test]
fn mac_02_generated_code_stands_alone() {
    trybuild::TestCases::new().pass("ui/pass/*.rs");
}
