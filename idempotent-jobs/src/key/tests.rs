use std::borrow::Cow;
use std::num::NonZero;
use std::sync::Arc;

use proptest::prelude::*;
use serde::Deserialize;

use super::{Key, KeyPart, KeyValue, Part, outgoing};
use crate::error::{Reason, Rejection};
use crate::message::Headers;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Value {
    Text(String),
    Int(String),
    Uint(String),
    Bool(String),
}

#[derive(Deserialize)]
struct Example {
    parts: Vec<Value>,
    form: String,
    stored: String,
    hash: String,
}

fn key_value(value: &Value) -> KeyValue<'_> {
    match value {
        Value::Text(text) => KeyValue::Text(Cow::Borrowed(text)),
        Value::Int(number) => KeyValue::Int(number.parse().expect("an i128")),
        Value::Uint(number) => KeyValue::Uint(number.parse().expect("a u128")),
        Value::Bool(truth) => KeyValue::Bool(truth == "true"),
    }
}

#[test]
fn key_02_the_form_is_frozen() {
    let examples: Vec<Example> =
        serde_json::from_str(include_str!("../../tests/frozen/keys.json")).expect("the frozen file");
    for example in &examples {
        let key = Key::new(example.parts.iter().map(key_value));
        assert_eq!(key.as_str(), example.form);
        assert_eq!(key.stored(), example.stored);
        assert_eq!(key.hash(), example.hash);
        assert!(super::form::is_form(&example.form), "{}", example.form);
    }
    let forms: std::collections::HashSet<_> = examples.iter().map(|example| &example.form).collect();
    assert_eq!(forms.len(), examples.len());
}

struct Charge {
    order_id: u64,
    op: &'static str,
}

const A1: Charge = Charge { order_id: 42, op: "charge" };

fn fields() -> [Part<Charge>; 2] {
    [Part::field("order_id", |c: &Charge| &c.order_id), Part::field("op", |c: &Charge| &c.op)]
}

fn by_header(name: &'static str, header: &'static str) -> [Part<Charge>; 1] {
    [Part::header(name, header)]
}

fn headers(headers: &[(&str, Option<&str>)]) -> Headers {
    Headers::new(
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(|v| v.as_bytes().to_vec()))).collect(),
    )
}

fn form(parts: &[Part<Charge>], with: &[(&str, Option<&str>)]) -> Result<String, Rejection> {
    Key::compute(parts, &A1, &headers(with)).map(|key| key.as_str().to_owned())
}

fn reason(parts: &[Part<Charge>], with: &[(&str, Option<&str>)]) -> Reason {
    form(parts, with).expect_err("refused").reason
}

fn one<T: KeyPart + ?Sized>(value: &T) -> String {
    Key::new([value.value()]).as_str().to_owned()
}

#[test]
fn key_01_every_declared_field_is_in_the_key() {
    assert_eq!(form(&fields(), &[]).expect("a key"), r#"[42,"charge"]"#);
    let refund = Charge { op: "refund", ..A1 };
    assert_eq!(Key::compute(&fields(), &refund, &Headers::default()).expect("a key").as_str(), r#"[42,"refund"]"#);
}

#[test]
fn each_type_has_one_exact_text() {
    assert_eq!(
        [one(&-1_i8), one(&i64::MIN), one(&7_usize), one(&u128::MAX)],
        ["[-1]", "[-9223372036854775808]", "[7]", "[340282366920938463463374607431768211455]"]
    );
    assert_eq!(one(&NonZero::new(5_u32).expect("not zero")), "[5]");
    assert_eq!(
        [
            one("a"),
            one(&String::from("a")),
            one(&Box::<str>::from("a")),
            one(&Arc::<str>::from("a")),
            one(&Cow::Borrowed("a")),
            one(&&"a"),
            one(&'a')
        ],
        [r#"["a"]"#; 7]
    );
    assert_eq!([one(&true), one(&false)], ["[true]", "[false]"]);
    let id: uuid::Uuid = "67E55044-10B1-426F-9247-BB680E5FE0C8".parse().expect("a uuid");
    assert_eq!(one(&id), r#"["67e55044-10b1-426f-9247-bb680e5fe0c8"]"#);
}

#[test]
fn widening_an_integer_keeps_its_keys() {
    assert_eq!([one(&42_u8), one(&42_i32), one(&42_u64), one(&42_i128)], ["[42]"; 4]);
}

#[test]
fn key_02_parts_never_glue_together() {
    let pairs = [
        ("x|y", "z"),
        ("x", "y|z"),
        ("", "a"),
        ("a", ""),
        ("a\",\"b", ""),
        ("a", "b\",\""),
        ("None", ""),
        ("null", ""),
    ];
    let forms: std::collections::HashSet<_> = pairs.iter().map(|(a, b)| Key::new([a.value(), b.value()])).collect();
    assert_eq!(forms.len(), pairs.len());
    assert_ne!(one("42"), one(&42));
    assert_ne!(one("true"), one(&true));
}

#[test]
fn nul_is_written_as_six_characters() {
    let key = Key::new(["a\0b".value()]);
    assert_eq!(key.stored(), "[\"a\\u0000b\"]");
    assert!(!key.stored().contains('\0'));
}

#[test]
fn a_long_form_is_stored_by_its_digest() {
    let (short, long) = (Key::new(["x".repeat(508).value()]), Key::new(["x".repeat(509).value()]));
    assert_eq!(short.stored(), short.as_str());
    assert_eq!((long.stored().len(), long.stored().starts_with("sha256:")), (71, true));
}

#[test]
fn a_key_shows_only_its_hash() {
    let key = Key::new(["alice@example.org".value()]);
    assert_eq!(format!("{key:?}"), format!("Key({})", key.hash()));
    assert_eq!(key.hash().len(), 16);
}

#[test]
fn key_03_a_header_that_is_missing_or_null_or_no_text_is_refused() {
    let part = by_header("header(ce_id)", "ce_id");
    assert_eq!(form(&part, &[("ce_id", Some("1")), ("ce_id", Some("2"))]).expect("the last"), r#"["2"]"#);
    assert_eq!(reason(&part, &[("CE_ID", Some("1"))]), Reason::KeyMissing);
    assert_eq!(reason(&part, &[("ce_id", Some("1")), ("ce_id", None)]), Reason::KeyMissing);
    assert_eq!(reason(&part, &[("ce_id", Some(""))]), Reason::KeyMissing);
    assert!(form(&part, &[]).expect_err("missing").detail.contains("`header(ce_id)`"));
    let bytes = Headers::new(vec![("ce_id".into(), Some(vec![0xFF]))]);
    assert_eq!(Key::compute(&part, &A1, &bytes).expect_err("no text").reason, Reason::KeyInvalid);
    assert_eq!(reason(&[], &[]), Reason::KeyMissing);
}

#[test]
fn key_05_a_tenant_in_a_header_keeps_equal_orders_apart() {
    let [order, _] = fields();
    let parts = [Part::header("header(tenant)", "tenant"), order];
    assert_eq!(form(&parts, &[("tenant", Some("T1"))]).expect("a key"), r#"["T1",42]"#);
    assert_eq!(form(&parts, &[("tenant", Some("T2"))]).expect("a key"), r#"["T2",42]"#);
    assert_eq!(form(&parts, &[("tenant", Some(""))]).expect("one part of two may be empty"), r#"["",42]"#);
}

#[test]
fn a_job_keyed_by_the_header_takes_our_form_as_it_stands_and_all_else_as_one_text() {
    let part = by_header("header(idempotency-key)", "idempotency-key");
    let key = |text: &str| form(&part, &[("idempotency-key", Some(text))]).expect("a key");
    for ours in [r#"[42,"charge"]"#, "[true]", r#"["A1"]"#, r#"["\u0000"]"#, "[-1]"] {
        assert_eq!(key(ours), ours);
    }
    for other in [
        "A1",
        "42",
        "[]",
        "[1.0]",
        "[1e3]",
        "[-0]",
        "[01]",
        "[ 1]",
        "[null]",
        "[[1]]",
        r#"["\u0041"]"#,
        r#"["\/"]"#,
        "[1",
        "{}",
        "[340282366920938463463374607431768211456]",
        "[1] ",
    ] {
        assert_eq!(key(other), one(other), "{other}");
    }
    let other_header = by_header("header(ce_id)", "ce_id");
    assert_eq!(form(&other_header, &[("ce_id", Some("[1]"))]).expect("a key"), r#"["[1]"]"#);
}

#[test]
fn a_header_that_contradicts_the_fields_is_a_mismatch_and_not_shown() {
    assert!(form(&fields(), &[("idempotency-key", Some(r#"[42,"charge"]"#))]).is_ok());
    let rejection = form(&fields(), &[("idempotency-key", Some("secret-7"))]).expect_err("a mismatch");
    assert_eq!(rejection.reason, Reason::KeyMismatch);
    assert!(!rejection.detail.contains("secret-7") && !rejection.detail.contains("42"), "{}", rejection.detail);
    assert!(rejection.detail.contains("header(idempotency-key)"));
    assert_eq!(
        reason(&fields(), &[("idempotency-key", Some("x")), ("idempotency-key-parts", Some("order_id,op"))]),
        Reason::KeyMismatch
    );
}

#[test]
fn a_header_made_of_other_parts_is_not_compared() {
    assert!(form(&fields(), &[("idempotency-key", Some("[42]")), ("idempotency-key-parts", Some("order_id"))]).is_ok());
    assert!(form(&fields(), &[("idempotency-key", None)]).is_ok());
    let elsewhere = by_header("header(ce_id)", "ce_id");
    assert!(form(&elsewhere, &[("idempotency-key", Some("x")), ("ce_id", Some("1"))]).is_ok());
}

#[test]
fn a_sender_computes_what_the_receiver_compares() {
    let (key, parts) = outgoing(&fields(), &A1).expect("fields only");
    assert_eq!((key.as_str(), parts.as_str()), (r#"[42,"charge"]"#, "order_id,op"));
    assert!(
        form(&fields(), &[("idempotency-key", Some(key.as_str())), ("idempotency-key-parts", Some(&parts))]).is_ok()
    );
    assert!(outgoing(&by_header("header(x)", "x"), &A1).is_err());
}

#[cfg(feature = "chrono")]
#[test]
fn dates_of_chrono_have_one_text() {
    use chrono::{DateTime, FixedOffset, NaiveDate, NaiveTime, TimeZone, Timelike, Utc};
    let day = NaiveDate::from_ymd_opt(2026, 2, 28).expect("a day");
    let moment = day.and_hms_nano_opt(23, 30, 0, 5_000_000).expect("a time");
    assert_eq!(
        [one(&day), one(&moment.time()), one(&moment)],
        [r#"["2026-02-28"]"#, r#"["23:30:00.005000000"]"#, r#"["2026-02-28T23:30:00.005000000"]"#]
    );
    let west =
        FixedOffset::west_opt(3600).expect("an offset").from_local_datetime(&moment).single().expect("an instant");
    let utc: DateTime<Utc> = west.to_utc();
    assert_eq!([one(&west), one(&utc)], [r#"["2026-03-01T00:30:00.005000000Z"]"#; 2]);
    let year = |year| one(&NaiveDate::from_ymd_opt(year, 1, 2).expect("a day"));
    assert_eq!([year(0), year(-44), year(10_000)], [r#"["0000-01-02"]"#, r#"["-0044-01-02"]"#, r#"["+10000-01-02"]"#]);
    let leap = NaiveTime::from_hms_nano_opt(23, 59, 59, 1_500_000_000).expect("a leap second");
    assert_eq!(one(&leap), r#"["23:59:59.1500000000"]"#);
    assert_ne!(
        one(&leap.with_second(10).expect("chrono allows it")),
        one(&NaiveTime::from_hms_nano_opt(23, 59, 11, 500_000_000).expect("a time"))
    );
    for extreme in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        assert!(one(&extreme.with_timezone(&FixedOffset::east_opt(0).expect("UTC"))).ends_with("Z\"]"));
    }
}

#[cfg(feature = "time")]
#[test]
fn dates_of_time_have_one_text() {
    use time::{Date, Month, PrimitiveDateTime, Time, UtcOffset};
    let day = Date::from_calendar_date(2026, Month::February, 28).expect("a day");
    let moment = PrimitiveDateTime::new(day, Time::from_hms_nano(23, 30, 0, 5_000_000).expect("a time"));
    assert_eq!(
        [one(&day), one(&moment.time()), one(&moment)],
        [r#"["2026-02-28"]"#, r#"["23:30:00.005000000"]"#, r#"["2026-02-28T23:30:00.005000000"]"#]
    );
    let offset = |hours| UtcOffset::from_hms(hours, 0, 0).expect("an offset");
    let west = moment.assume_offset(offset(-1));
    assert_eq!([one(&west), one(&west.to_offset(UtcOffset::UTC))], [r#"["2026-03-01T00:30:00.005000000Z"]"#; 2]);
    let last = PrimitiveDateTime::MAX.assume_offset(offset(-23));
    let first = PrimitiveDateTime::MIN.assume_offset(offset(23));
    assert!(last.checked_to_offset(UtcOffset::UTC).is_none() && first.checked_to_offset(UtcOffset::UTC).is_none());
    assert_eq!(one(&last), r#"["+10000-01-01T22:59:59.999999999Z"]"#);
    assert_eq!(one(&first), r#"["-10000-12-31T01:00:00.000000000Z"]"#);
}

#[cfg(feature = "time")]
proptest! {
    #[test]
    fn the_day_found_by_arithmetic_is_that_of_the_crate(seconds in -377_705_116_800_i64..253_402_300_800) {
        let instant = time::OffsetDateTime::from_unix_timestamp(seconds).expect("in range");
        let moment = time::PrimitiveDateTime::new(instant.date(), instant.time());
        prop_assert_eq!(one(&instant), one(&moment).replace("\"]", "Z\"]"));
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Typed {
    Text(String),
    Signed(i128),
    Unsigned(u128),
    Bool(bool),
}

impl Typed {
    fn value(&self) -> KeyValue<'_> {
        match self {
            Self::Text(text) => text.value(),
            Self::Signed(number) => number.value(),
            Self::Unsigned(number) => number.value(),
            Self::Bool(truth) => truth.value(),
        }
    }

    /// What distinguishes it: its kind, and its text or number.
    fn identity(&self) -> (&'static str, String) {
        match self {
            Self::Text(text) => ("text", text.clone()),
            Self::Signed(number) => ("number", number.to_string()),
            Self::Unsigned(number) => ("number", number.to_string()),
            Self::Bool(truth) => ("bool", truth.to_string()),
        }
    }
}

/// Few values, and texts full of the form's own characters, so that collisions would be found.
fn tuple() -> impl Strategy<Value = Vec<Typed>> {
    let part = prop_oneof![
        "[\"\\\\,\\[\\]1]{0,3}".prop_map(Typed::Text),
        prop::sample::select(vec!["true", "null", "", "1", "\0", "é"]).prop_map(|text| Typed::Text(text.to_owned())),
        any::<String>().prop_map(Typed::Text),
        (-2_i128..3).prop_map(Typed::Signed),
        (0_u128..3).prop_map(Typed::Unsigned),
        any::<i128>().prop_map(Typed::Signed),
        any::<bool>().prop_map(Typed::Bool),
    ];
    prop::collection::vec(part, 1..4)
}

/// The parts read back from a form by another reader.
fn read_back(form: &str) -> Vec<(&'static str, String)> {
    let parts: Vec<&serde_json::value::RawValue> = serde_json::from_str(form).expect("an array");
    let identity = |part: &&serde_json::value::RawValue| match part.get() {
        text if text.starts_with('"') => ("text", serde_json::from_str(text).expect("a string")),
        word @ ("true" | "false") => ("bool", word.to_owned()),
        number => ("number", number.to_owned()),
    };
    parts.iter().map(identity).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn key_02_the_form_is_injective(a in tuple(), b in tuple()) {
        let identities = |tuple: &[Typed]| tuple.iter().map(Typed::identity).collect::<Vec<_>>();
        let form = |tuple: &[Typed]| Key::new(tuple.iter().map(Typed::value)).as_str().to_owned();
        prop_assert_eq!(form(&a) == form(&b), identities(&a) == identities(&b));
        prop_assert_eq!(read_back(&form(&a)), identities(&a));
        prop_assert!(super::form::is_form(&form(&a)));
    }

    #[test]
    fn no_header_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
        let headers = Headers::new(vec![("idempotency-key".into(), Some(bytes))]);
        let _ = Key::compute(&by_header("header(idempotency-key)", "idempotency-key"), &A1, &headers);
        let _ = Key::compute(&fields(), &A1, &headers);
    }
}
