//! The words with which the macros refuse.
//!
//! `TRYBUILD=overwrite cargo test -p tests --test ui` writes the `.stderr` files anew. Read each
//! as the user who made the mistake: it points at the token and says what to write.

/// One mistake a file, named after it; the file beside it holds the whole answer.
#[test]
fn mac_02_errors_point_at_the_token() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
