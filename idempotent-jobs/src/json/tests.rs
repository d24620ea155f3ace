use proptest::prelude::*;

use super::{Document, Kind, MAX_DEPTH, write_text};

fn fault(text: &str) -> String {
    Document::parse(text).expect_err("not JSON").to_string()
}

/// Whether serde_json reads it, apart from numbers that fit no type of its own.
fn serde_reads(text: &str) -> bool {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => true,
        Err(error) => error.to_string().starts_with("number out of range"),
    }
}

#[test]
fn what_is_written_is_kept() {
    let text = r#" {"a": 1.50, "b\u0061": ["x", null], "a": {}} "#;
    let document = Document::parse(text).expect("JSON");
    let root = document.root();
    let members: Vec<_> = document.members(root).map(|(n, v)| (document.decoded(n), document.raw(v))).collect();
    assert_eq!(members, [("a".into(), "1.50"), ("ba".into(), r#"["x", null]"#), ("a".into(), "{}")]);
    assert_eq!(document.named(root, "a").count(), 2);
    assert_eq!(document.named(root, "ba").map(|v| document.elements(v).count()).collect::<Vec<_>>(), [2]);
    assert_eq!(document.kind(root), Kind::Object);
    assert_eq!(&text[document.end(root)..], " ");
}

#[test]
fn a_fault_says_where_and_not_what() {
    assert_eq!(fault(r#"{"a":"#), "the payload ends where a value is needed at line 1 column 6");
    assert_eq!(fault("{\"a\":1,\n \"b\" 2}"), "a colon is needed after a member's name at line 2 column 6");
    assert_eq!(fault("1 secret"), "something follows the value at line 1 column 3");
    assert_eq!(fault("\"a\nb\""), "a control character stands unescaped in a string at line 1 column 3");
    assert_eq!(fault(r#""\x""#), "an unknown escape stands in a string at line 1 column 3");
    assert_eq!(fault(r#"[1,]"#), "a value is needed at line 1 column 4");
    assert_eq!(fault("  "), "the payload ends where a value is needed at line 1 column 3");
}

#[test]
fn half_a_surrogate_pair_is_no_character() {
    for text in [r#""\ud83d""#, r#""\ude80""#, r#""\ud83dx""#, r#""\ud83d\n""#, r#""\ud83d\ud83d""#, r#"{"\udfff":1}"#]
    {
        assert!(fault(text).starts_with("a \\u escape is half of a surrogate pair"), "{text}");
    }
    assert!(fault(r#""\ud83d\u""#).starts_with("a \\u escape needs four"));
    assert!(fault(r#""\u12"#).starts_with("a \\u escape needs four"));
    let document = Document::parse(r#""\uD83D\uDE80""#).expect("a whole pair");
    assert_eq!(document.decoded(document.root()), "🚀");
}

#[test]
fn depth_ends_where_that_of_serde_json_does() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [MAX_DEPTH, MAX_DEPTH + 1, 1_000_000] {
        assert_eq!(Document::parse(&nested(depth)).is_ok(), depth <= MAX_DEPTH);
    }
    assert!(serde_reads(&nested(MAX_DEPTH)) && !serde_reads(&nested(MAX_DEPTH + 1)));
    assert!(fault(&"[".repeat(1_000_000)).starts_with("more than 127"));
}

#[test]
fn every_character_is_written_as_serde_json_writes_it() {
    for character in (0..=char::MAX as u32).filter_map(char::from_u32) {
        let mut written = String::new();
        let value = format!("a{character}b");
        write_text(&mut written, &value);
        assert_eq!(written, serde_json::to_string(&value).expect("a string"));
        let document = Document::parse(&written).expect("a string");
        assert_eq!(document.decoded(document.root()), value);
    }
}

/// Text of the characters that matter to the grammar, so that much of it is nearly JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00e9", "\\ud83d", "\\ude80", "\"a\"", "\"a\":", "0", "1", "-",
        ".", "e", "E+", "true", "null", "fals", " ", "\n", "\0", "é",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn it_reads_what_serde_json_reads(text in nearly_json()) {
        prop_assert_eq!(Document::parse(&text).is_ok(), serde_reads(&text), "{}", text);
    }

    #[test]
    fn a_string_in_any_escapes_has_the_value_serde_json_gives(text in "\"([a\\u{e9}\\u{1F680}]|\\\\[nt/\"\\\\]|\\\\u00[0-9a-fA-F]{2}|\\\\ud83d\\\\ude8[0-9]){0,8}\"") {
        let document = Document::parse(&text).expect("a string");
        let value: String = serde_json::from_str(&text).expect("a string");
        prop_assert_eq!(document.decoded(document.root()), value);
    }
}
