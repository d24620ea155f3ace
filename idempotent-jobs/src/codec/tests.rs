use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{KeyField, decode, payload, scan};
use crate::error::{Reason, Rejection};
use crate::key::Part;
use crate::message::{Coordinates, Headers, Message};

#[derive(Debug, PartialEq, Deserialize)]
struct Charge {
    order_id: u64,
    op: Op,
    #[serde(default)]
    amount_cents: i64,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Charge,
    Refund,
}

fn read<P: DeserializeOwned>(bytes: &[u8], parts: &[Part<P>]) -> Result<P, Rejection> {
    let fields: Vec<KeyField> = parts.iter().filter_map(KeyField::of).collect();
    decode(&scan(bytes)?, &fields)
}

fn charge(wire: &str) -> Result<Charge, Rejection> {
    read(wire.as_bytes(), &[Part::field("order_id", |c: &Charge| &c.order_id)])
}

fn detail(result: Result<Charge, Rejection>) -> String {
    let rejection = result.expect_err("refused");
    assert_eq!(rejection.reason, Reason::Decode, "{}", rejection.detail);
    rejection.detail
}

/// Refused since the part of that name is not on the wire.
fn lacks<P: std::fmt::Debug>(result: Result<P, Rejection>, part: &str) -> bool {
    let rejection = result.expect_err("refused");
    rejection.reason == Reason::KeyMissing && rejection.detail.starts_with(&format!("`{part}`, a part of the key, is "))
}

fn message(payload: Option<Vec<u8>>) -> Message {
    let coordinates = Coordinates { topic: "orders".into(), partition: 0, offset: 5 };
    Message { coordinates, key: None, payload, headers: Headers::default(), timestamp: None }
}

#[test]
fn con_11_null_and_empty_are_refused_differently() {
    assert_eq!(payload(&message(None)).expect_err("a tombstone").reason, Reason::Tombstone);
    let empty = message(Some(Vec::new()));
    let rejection = scan(payload(&empty).expect("empty is not null")).expect_err("empty");
    assert_eq!(
        (rejection.reason, rejection.detail.as_str()),
        (Reason::Decode, "the payload is empty, and this job reads JSON")
    );
}

#[test]
fn con_10_what_is_not_json_is_refused_with_its_place() {
    assert!(detail(charge(r#"{"a":"#)).ends_with("ends where a value is needed at line 1 column 6"));
    assert!(detail(read(b"\xff", &[])).ends_with("not UTF-8 at byte 0"));
    assert!(
        detail(charge(r#"{"order_id":1,"op":"charge"} x"#))
            .ends_with("something follows the value at line 1 column 30")
    );
    assert!(
        detail(charge(&format!(r#"{{"order_id":1,"op":"charge","x":{}}}"#, "[".repeat(200_000))))
            .contains("more than 127")
    );
    assert!(detail(charge(r#"{"order_id":1e999999,"op":"charge"}"#)).contains("number out of range"));
}

#[test]
fn sch_02_registry_framing_is_named_with_its_id() {
    assert!(detail(read(b"\0\0\0\0\x07{\"order_id\":1}", &[])).contains("schema registry framing, schema id 7"));
    assert!(detail(read(b"\0\0\0", &[])).contains("not JSON"));
    assert!(detail(charge("\u{feff}{}")).contains("byte order mark"));
}

#[test]
fn sch_01_added_members_are_accepted_and_unknown_values_refused() {
    assert!(charge(r#"{"order_id":1,"op":"charge","new":{"deep":[1]}}"#).is_ok());
    let unknown = detail(charge(r#"{"order_id":1,"op":"chargeback"}"#));
    assert_eq!(
        unknown,
        "the payload does not fit the job's type: unknown variant, expected `charge` or `refund` at line 1 column 31"
    );
    assert!(detail(charge(r#"{"order_id":1}"#)).contains("missing field `op`"));
}

#[test]
fn an_error_never_quotes_the_payload() {
    let secrets = [
        r#"{"order_id":"5105105105105100","op":"charge"}"#,
        r#"{"order_id":1,"op":"5105105105105100"}"#,
        r#"{"order_id":1,"op":"x, expected 5105105105105100"}"#,
        r#"{"order_id":1,"op":"charge","amount_cents":5105105105105100.5}"#,
        r#"{"order_id":-5105105105105100,"op":"charge"}"#,
        r#"{"order_id":1,"op":{"5105105105105100":1}}"#,
        r#"{"order_id":1,"op":"missing field `5105105105105100`"}"#,
        r#""5105105105105100""#,
        "5105105105105100",
        r#"{"order_id":1,"op":"charge","x":5105105105105100x}"#,
        r#"{"order_id":1,"order_id":5105105105105100,"op":"charge"}"#,
    ];
    for secret in secrets {
        let detail = detail(charge(secret));
        assert!(!detail.contains("5105"), "{detail}");
        assert!(detail.contains(" at line 1 column "), "{detail}");
    }
    assert!(detail(charge(r#"{"order_id":"x","op":"charge"}"#)).contains("invalid type: a string, expected u64 at"));
}

#[test]
fn an_error_of_a_types_own_making_is_not_shown() {
    #[derive(Debug)]
    struct Iban;
    impl<'de> Deserialize<'de> for Iban {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Err(serde::de::Error::custom(format!("bad IBAN {text}")))
        }
    }
    #[derive(Debug, Deserialize)]
    enum Never {}
    for text in [
        read::<Iban>(br#""DE12""#, &[]).expect_err("refused").detail,
        read::<Never>(br#""a, expected DE12""#, &[]).expect_err("refused").detail,
    ] {
        assert!(!text.contains("DE12"), "{text}");
    }
}

#[test]
fn key_03_a_missing_or_null_field_of_the_key_is_key_missing() {
    assert!(lacks(charge(r#"{"op":"charge"}"#), "order_id"));
    assert!(lacks(charge(r#"{"order_id":null,"op":"charge"}"#), "order_id"));
    assert!(lacks(charge("{}"), "order_id"));
    assert!(charge(r#"{"order_id":0,"op":"charge"}"#).is_ok());
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lenient {
    order_id: u64,
    #[serde(alias = "kind", alias = "op_kind")]
    op: String,
    #[serde(deserialize_with = "null_as_zero")]
    line_no: u32,
    customer: Customer,
    #[serde(rename = "ref")]
    reference: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Customer {
    id: u64,
    name: String,
}

fn null_as_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn lenient(wire: &str, part: Part<Lenient>) -> Result<Lenient, Rejection> {
    read(wire.as_bytes(), &[part])
}

#[test]
fn key_03_a_default_is_not_taken_for_a_key() {
    let order_id = || Part::field("order_id", |l: &Lenient| &l.order_id);
    assert!(lenient(r#"{"orderId":7}"#, order_id()).is_ok());
    assert!(lacks(lenient(r#"{"op":"charge"}"#, order_id()), "order_id"));
    assert!(lacks(lenient("{}", order_id()), "order_id"));
    assert!(lacks(lenient(r#"{"order_id":7}"#, order_id()), "order_id"), "serde does not read that name");
    let line_no = || Part::field("line_no", |l: &Lenient| &l.line_no);
    assert!(lacks(lenient(r#"{"lineNo":null}"#, line_no()), "line_no"));
    assert!(lenient(r#"{"\u006cineNo":3}"#, line_no()).is_ok());
}

#[test]
fn key_03_an_alias_fills_a_field_of_the_key() {
    let op = || Part::field("op", |l: &Lenient| &l.op);
    assert_eq!(lenient(r#"{"kind":"charge"}"#, op()).expect("an alias").op, "charge");
    assert!(lenient(r#"{"op_kind":"charge"}"#, op()).is_ok());
    assert!(lacks(lenient(r#"{"other":"charge"}"#, op()), "op"));
    assert!(lacks(lenient(r#"{"customer":{"op":"charge"}}"#, op()), "op"));
}

#[test]
fn key_03_a_nested_field_is_followed() {
    let id = || Part::field("customer.id", |l: &Lenient| &l.customer.id);
    assert!(lenient(r#"{"customer":{"name":"x","id":1}}"#, id()).is_ok());
    assert!(lacks(lenient(r#"{"customer":{"name":"x"}}"#, id()), "customer.id"));
    assert!(lacks(lenient(r#"{"customer":{}}"#, id()), "customer.id"));
    assert!(lacks(lenient(r#"{"customer":null}"#, id()), "customer.id"));
    assert!(lacks(lenient(r#"{"id":1}"#, id()), "customer.id"));
}

#[test]
fn key_03_a_field_renamed_to_another_word_is_left_to_the_type() {
    let reference = || Part::field("reference", |l: &Lenient| &l.reference);
    assert!(lenient(r#"{"ref":"x"}"#, reference()).is_ok());
    assert!(lenient("{}", reference()).is_ok(), "the limit that the module names");
}

#[test]
fn key_03_a_struct_given_as_an_array_has_no_named_key() {
    let rejection = charge(r#"[1,"charge",5]"#).expect_err("refused");
    assert_eq!(rejection.reason, Reason::Decode);
    assert!(rejection.detail.contains("read by name"));
}

#[test]
fn payloads_that_are_no_structs_are_read() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Newtype(Charge);
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type")]
    enum Event {
        Paid { order_id: u64 },
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        inner: Customer,
    }
    fn order_id(event: &Event) -> &u64 {
        let Event::Paid { order_id } = event;
        order_id
    }
    let newtype = || [Part::field("order_id", |n: &Newtype| &n.0.order_id)];
    assert!(read(br#"{"order_id":1,"op":"refund"}"#, &newtype()).is_ok_and(|n| n.0.op == Op::Refund));
    assert!(lacks(read(br#"{"op":"refund"}"#, &newtype()), "order_id"));
    assert_eq!(
        read(br#"{"type":"Paid","order_id":1}"#, &[Part::field("order_id", order_id)]).ok(),
        Some(Event::Paid { order_id: 1 })
    );
    assert!(read(br#"{"id":1}"#, &[Part::field("id", |f: &Flat| &f.inner.id)]).is_ok());
    assert!(read::<serde_json::Value>(b"[1,null]", &[]).is_ok());
    assert_eq!(read::<u64>(b" 7 ", &[]).ok(), Some(7));
}

#[test]
#[expect(clippy::borrowed_box, reason = "a part's getter takes the payload's own type by reference")]
fn a_boxed_payload_tells_its_names_too() {
    let part = Part::field("op", |c: &Box<Lenient>| &c.op);
    assert!(lacks(read(b"{}", &[part]), "op"));
}

proptest! {
    #[test]
    fn con_10_no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = read::<Charge>(&bytes, &[Part::field("order_id", |c: &Charge| &c.order_id)]);
        let _ = read::<serde_json::Value>(&bytes, &[]);
    }

    #[test]
    fn an_error_holds_no_word_of_the_payload(word in "[qx#]{6,12}", place in 0_usize..4) {
        let wire = [
            format!(r#"{{"order_id":"{word}","op":"charge"}}"#),
            format!(r#"{{"order_id":1,"op":"{word}"}}"#),
            format!(r#"{{"order_id":1,"op":"charge","{word}":{word}}}"#),
            format!(r#"{{"{word}":1}}"#),
        ];
        let detail = charge(&wire[place]).expect_err("refused").detail;
        prop_assert!(!detail.contains(&word), "{}", detail);
    }
}
