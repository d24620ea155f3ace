use proptest::prelude::*;
use serde::Deserialize;

use super::{Comparison, Fingerprint, Scheme, canonical, compare};
use crate::error::{Reason, Rejection};
use crate::json::Document;

#[derive(Deserialize)]
struct Example {
    compare: Vec<String>,
    scheme: String,
    wire: String,
    canonical: String,
    sha256: String,
}

fn examples() -> Vec<Example> {
    serde_json::from_str(include_str!("../../tests/frozen/fingerprints.json")).expect("the frozen file")
}

fn scheme(paths: &[&str]) -> Scheme {
    Scheme::new(paths)
}

fn whole(wire: &str) -> Fingerprint {
    scheme(&[]).fingerprint(wire.as_bytes()).expect("JSON")
}

fn refused(paths: &[&str], wire: &[u8]) -> Rejection {
    let rejection = scheme(paths).fingerprint(wire).expect_err("refused");
    assert_eq!(rejection.reason, Reason::Decode);
    rejection
}

fn form(wire: &str) -> String {
    let document = Document::parse(wire).expect("JSON");
    let mut form = String::new();
    canonical::value(&mut form, &document, document.root());
    form
}

#[test]
fn ded_02_fingerprints_are_frozen() {
    for example in examples() {
        let paths: Vec<&str> = example.compare.iter().map(String::as_str).collect();
        let scheme = Scheme::new(&paths);
        assert_eq!(scheme.id(), example.scheme);
        if paths.is_empty() {
            assert_eq!(form(&example.wire), example.canonical);
        }
        let fingerprint = scheme.fingerprint(example.wire.as_bytes()).expect("an example");
        assert_eq!(format!("{fingerprint:?}"), example.sha256, "{}", example.wire);
    }
}

#[test]
fn ded_02_another_amount_under_one_key_differs() {
    let (ten, ninety) =
        (whole(r#"{"order_id":"A1","op":"pay","eur":10}"#), whole(r#"{"order_id":"A1","op":"pay","eur":90}"#));
    assert_eq!(compare((&ten, "v1"), (ten.as_bytes(), "v1")), Comparison::Same);
    assert_eq!(compare((&ninety, "v1"), (ten.as_bytes(), "v1")), Comparison::Different);
}

#[test]
fn a_resend_with_an_added_field_differs_unless_only_the_old_ones_are_compared() {
    let old = r#"{"order_id":42,"amount_cents":1000}"#;
    let new = r#"{"order_id":42,"amount_cents":1000,"currency":"EUR"}"#;
    assert_ne!(whole(old), whole(new));
    let compared = scheme(&["amount_cents"]);
    let print = |wire: &str| compared.fingerprint(wire.as_bytes()).expect("JSON");
    assert_eq!(compare((&print(new), compared.id()), (print(old).as_bytes(), compared.id())), Comparison::Same);
}

#[test]
fn a_resend_with_reordered_members_is_the_same() {
    assert_eq!(whole(r#"{"order_id":42,"op":"charge"}"#), whole(r#"{ "op" : "charge" , "order_id" : 42 }"#));
}

#[test]
fn a_changed_compare_or_a_foreign_digest_cannot_be_compared() {
    let wire = br#"{"order_id":42,"amount_cents":1000}"#;
    let (before, after) = (scheme(&[]), scheme(&["amount_cents"]));
    let mine = after.fingerprint(wire).expect("JSON");
    let stored = before.fingerprint(wire).expect("JSON");
    assert_eq!(compare((&mine, after.id()), (stored.as_bytes(), before.id())), Comparison::Incomparable);
    assert_eq!(compare((&mine, after.id()), (&stored.as_bytes()[..31], after.id())), Comparison::Incomparable);
    assert_eq!(compare((&mine, after.id()), (&[], after.id())), Comparison::Incomparable);
}

#[test]
fn the_order_and_repetition_of_compared_paths_say_nothing() {
    assert_eq!(scheme(&["b.c", "a"]), scheme(&["a", "b.c", "a"]));
    assert_eq!(scheme(&["b.c", "a"]).id(), "v1:a,b.c");
    assert_eq!(scheme(&["a,b"]), scheme(&["b", " a "]));
    assert_eq!(scheme(&[]).id(), "v1");
}

#[test]
fn a_compared_path_must_be_in_the_message_once_and_null_counts() {
    let detail = refused(&["amountCents"], br#"{"amount_cents":1}"#).detail;
    assert_eq!(detail, "the compared path `amountCents` is not in the message: spell it as on the wire");
    refused(&["customer.id"], br#"{"customer":7}"#);
    refused(&["customer.id"], br#"{"customer":null}"#);
    refused(&["a"], br#"[{"a":1}]"#);
    assert!(refused(&["a"], br#"{"a":1,"a":2}"#).detail.ends_with("more than once"));
    let coupon = scheme(&["coupon"]);
    assert_ne!(coupon.fingerprint(br#"{"coupon":null}"#).ok(), coupon.fingerprint(br#"{"coupon":"null"}"#).ok());
}

#[test]
fn numbers_are_exact() {
    let spellings =
        ["1", "1.0", "1e0", "10e-1", "9007199254740992", "9007199254740993", "1e999999", "1e999998", "-0", "0", "-0.0"];
    for (index, a) in spellings.iter().enumerate() {
        for b in &spellings[index + 1..] {
            assert_ne!(whole(a), whole(b), "{a} {b}");
        }
    }
}

#[test]
fn repeated_members_are_seen_in_their_order() {
    let prints = [r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, r#"{"a":1}"#, r#"{"a":2}"#].map(whole);
    assert!(prints.iter().enumerate().all(|(i, a)| prints[i + 1..].iter().all(|b| a != b)));
}

#[test]
fn hostile_payloads_are_refused_and_never_quoted() {
    refused(&[], b"");
    refused(&[], b"{\"a\":\"\xff\"}");
    refused(&[], br#"{"a":"\ud800"}"#);
    refused(&[], "[".repeat(1_000_000).as_bytes());
    assert!(!refused(&[], br#"{"pan":"4111"} 4111"#).detail.contains("4111"));
}

#[test]
fn stored_bytes_are_read_back() {
    let print = whole("1");
    assert_eq!(Fingerprint::from_bytes(print.as_bytes()), Some(print));
    assert_eq!(Fingerprint::from_bytes(&[0; 31]), None);
}

/// A JSON value by its meaning: what two spellings of one message share.
#[derive(Debug, Clone, PartialEq)]
enum Meaning {
    Word(&'static str),
    Number(String),
    Text(String),
    Array(Vec<Meaning>),
    Object(std::collections::BTreeMap<String, Meaning>),
}

fn meaning() -> impl Strategy<Value = Meaning> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(Meaning::Word),
        "-?(0|[1-9][0-9]{0,20})([.][0-9]{1,3})?".prop_map(Meaning::Number),
        "[a\"\\\\/\n\u{0}é🚀,:]{0,4}".prop_map(Meaning::Text),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Meaning::Array),
            prop::collection::btree_map("[ab\"é🚀]{0,2}", inner, 0..4).prop_map(Meaning::Object),
        ]
    })
}

/// One of the many spellings of `meaning`, chosen by `seed`.
fn spell(meaning: &Meaning, seed: &mut u64) -> String {
    let mut pick = |n: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % n
    };
    let space = ["", " ", "\n\t", "\r\n"][usize::try_from(pick(4)).expect("small")];
    let spelled = match meaning {
        Meaning::Word(word) => (*word).to_owned(),
        Meaning::Number(number) => number.clone(),
        Meaning::Text(text) => spell_text(text, &mut pick),
        Meaning::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(|element| spell(element, seed)).collect();
            format!("[{space}{}]", elements.join(","))
        }
        Meaning::Object(members) => {
            let turn = usize::try_from(pick(4)).expect("small");
            let mut spelled: Vec<String> = Vec::new();
            for (name, value) in members {
                let name = spell(&Meaning::Text(name.clone()), seed);
                spelled.push(format!("{name}:{}", spell(value, seed)));
            }
            let turn = turn % spelled.len().max(1);
            spelled.rotate_left(turn);
            format!("{{{space}{}}}", spelled.join(","))
        }
    };
    format!("{space}{spelled}{space}")
}

fn spell_text(text: &str, pick: &mut impl FnMut(u64) -> u64) -> String {
    let units = |character: char| {
        character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>()
    };
    let spelled = text.chars().map(|character| match character {
        c if pick(3) == 0 || c < ' ' => units(c),
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '/' if pick(2) == 0 => "\\/".into(),
        c => c.to_string(),
    });
    format!("\"{}\"", spelled.collect::<String>())
}

proptest! {
    #[test]
    fn the_form_is_that_of_the_meaning_alone(meaning in meaning(), mut one in any::<u64>(), mut two in any::<u64>()) {
        let (one, two) = (spell(&meaning, &mut one), spell(&meaning, &mut two));
        prop_assert_eq!(form(&one), form(&two), "{} {}", one, two);
        prop_assert_eq!(whole(&one), whole(&two));
        prop_assert_eq!(form(&form(&one)), form(&one));
    }

    #[test]
    fn other_meanings_have_other_forms(a in meaning(), b in meaning(), mut seed in any::<u64>()) {
        let (one, two) = (spell(&a, &mut seed), spell(&b, &mut seed));
        prop_assert_eq!(a == b, form(&one) == form(&two), "{} {}", one, two);
        let wrapped = |wire: &str, extra: &str| format!("{{\"payload\":{wire}{extra}}}");
        prop_assert_ne!(whole(&wrapped(&one, "")), whole(&wrapped(&one, ",\"added\":0")));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = scheme(&[]).fingerprint(&bytes);
        let _ = scheme(&["a.b"]).fingerprint(&bytes);
    }
}
