//! The texts inside `key = "…"`, `partition_by = "…"` and `compare = "…"`.
//!
//! Parts of a string literal cannot be pointed at on stable Rust, so every message quotes them.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{Ident, Index, LitStr, Member};

use crate::errors::{Errors, quoted};

/// One part of a key.
#[derive(Clone)]
pub(crate) struct Part {
    /// The part in its one spelling: no blanks, no `r#`.
    pub(crate) name: String,
    /// Where its value comes from.
    pub(crate) source: Source,
    /// The literal it stands in.
    pub(crate) span: Span,
}

/// Where a part's value comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// A field of the payload, by its path.
    Field(Vec<Member>),
    /// A header of the message.
    Header(String),
}

impl Part {
    /// The field a path begins with.
    pub(crate) fn first_field(&self) -> Option<&Member> {
        match &self.source {
            Source::Field(path) => path.first(),
            Source::Header(_) => None,
        }
    }
}

/// The parts of a key. `None` when any is wrong or there is none.
pub(crate) fn parts(list: &LitStr, errors: &mut Errors) -> Vec<Part> {
    let texts = entries(list, "key = \"order_id, op\"", errors);
    unique(texts.into_iter().map(|text| part(&text, list.span())), list.span(), "key", errors)
}

/// One field, as `partition_by` takes it.
pub(crate) fn field(text: &LitStr) -> syn::Result<Part> {
    let value = text.value();
    let part = if value.contains(',') {
        Err(format!("`partition_by` takes one field, not `{value}`: write `partition_by = \"order_id\"`"))
    } else {
        read_part(&value)
    };
    let (name, source) = part.map_err(|why| syn::Error::new(text.span(), why))?;
    if let Source::Header(_) = source {
        return Err(syn::Error::new(
            text.span(),
            format!(
                "`{name}` is a header, and a message is placed by its own fields: write \
                 `partition_by = \"order_id\"`"
            ),
        ));
    }
    Ok(Part { name, source, span: text.span() })
}

/// The wire paths of `compare`.
pub(crate) fn wire_paths(list: &LitStr, errors: &mut Errors) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for text in entries(list, "compare = \"amount_cents, customer.id\"", errors) {
        match wire_path(&text) {
            Ok(path) if paths.contains(&path) => errors.at(list.span(), repeated(&path, "compare")),
            Ok(path) => paths.push(path),
            Err(why) => errors.at(list.span(), why),
        }
    }
    paths
}

/// The comma-separated texts; empty ones are reported.
fn entries(list: &LitStr, example: &str, errors: &mut Errors) -> Vec<String> {
    let value = list.value();
    if value.trim().is_empty() {
        errors.at(list.span(), format!("the list is empty: write `{example}`"));
        return Vec::new();
    }
    let texts: Vec<_> = value.split(',').map(|text| text.trim().to_owned()).collect();
    if texts.iter().any(String::is_empty) {
        errors.at(
            list.span(),
            format!("`{value}` has an empty part: a comma stands between two parts, as in `{example}`"),
        );
    }
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

fn unique(parts: impl Iterator<Item = syn::Result<Part>>, span: Span, option: &str, errors: &mut Errors) -> Vec<Part> {
    let mut known: Vec<Part> = Vec::new();
    for part in parts {
        match part {
            Ok(part) if known.iter().any(|other| other.name == part.name) => {
                errors.at(span, repeated(&part.name, option));
            }
            Ok(part) => known.push(part),
            Err(error) => errors.push(error),
        }
    }
    known
}

fn repeated(text: &str, option: &str) -> String {
    format!("`{text}` stands in `{option}` more than once: keep one")
}

fn part(text: &str, span: Span) -> syn::Result<Part> {
    let (name, source) = read_part(text).map_err(|why| syn::Error::new(span, why))?;
    Ok(Part { name, source, span })
}

fn read_part(text: &str) -> Result<(String, Source), String> {
    if text.contains(['(', ')']) {
        let header = header(text)?;
        return Ok((format!("header({header})"), Source::Header(header)));
    }
    let path = text.split('.').map(|segment| member(segment.trim(), text)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<_> = path.iter().map(plain).collect();
    Ok((names.join("."), Source::Field(path)))
}

fn header(text: &str) -> Result<String, String> {
    let malformed =
        || format!("`{text}` is not a part of a key: a header is written `header(ce_id)`, a field `order_id`");
    let inside = text.strip_prefix("header").map(str::trim_start).and_then(|rest| rest.strip_prefix('('));
    let name = inside.and_then(|rest| rest.strip_suffix(')')).ok_or_else(malformed)?.trim();
    if name.is_empty() {
        return Err(format!("`{text}` names no header: write `header(ce_id)`"));
    }
    if name.contains(['(', ')', '"', '\\']) || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(malformed());
    }
    Ok(name.to_owned())
}

/// A field's name, `r#` being optional for keywords, or a tuple's index.
fn member(segment: &str, text: &str) -> Result<Member, String> {
    let refused = || {
        let of = if segment == text { String::new() } else { format!(" in `{text}`") };
        format!("`{segment}`{of} is not a field's name: write `order_id`, `customer.id` or `header(ce_id)`")
    };
    if segment.bytes().all(|b| b.is_ascii_digit()) && !segment.is_empty() {
        let index: u32 = segment.parse().map_err(|_| refused())?;
        return if index.to_string() == segment {
            Ok(Member::Unnamed(Index::from(index as usize)))
        } else {
            Err(refused())
        };
    }
    let ident = Ident::parse_any.parse_str(segment).map_err(|_| refused())?;
    match ident.to_string().as_str() {
        // What no raw identifier can be.
        "self" | "Self" | "super" | "crate" | "_" => Err(refused()),
        name if name.starts_with("r#") || syn::parse_str::<Ident>(name).is_ok() => Ok(Member::Named(ident)),
        keyword => Ok(Member::Named(Ident::new_raw(keyword, ident.span()))),
    }
}

/// A member's name without `r#`.
pub(crate) fn plain(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

fn wire_path(text: &str) -> Result<String, String> {
    if text.starts_with("header") && text.contains('(') {
        return Err(format!(
            "`{text}` is a header, and `compare` looks at the payload: name members of it, as in \
             `customer.id`"
        ));
    }
    let segments: Vec<_> = text.split('.').map(str::trim).collect();
    let strange = |c: char| c.is_whitespace() || c.is_control() || "()\"'\\".contains(c);
    if segments.iter().any(|segment| segment.is_empty() || segment.contains(strange)) {
        return Err(format!("`{text}` is not a path in the payload: write the names on the wire, as in `customer.id`"));
    }
    Ok(segments.join("."))
}

/// `fields are …`, for a field that is not there.
pub(crate) fn missing_field(payload: &Ident, name: &str, fields: &[String]) -> String {
    if fields.is_empty() {
        return format!("`{payload}` has no field `{name}`: it has no fields at all");
    }
    format!("`{payload}` has no field `{name}`: its fields are {}", quoted(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Result<Vec<String>, Vec<String>> {
        let mut errors = Errors::default();
        let parts = parts(&LitStr::new(list, Span::call_site()), &mut errors);
        if errors.is_empty() { Ok(parts.into_iter().map(|part| part.name).collect()) } else { Err(errors.texts()) }
    }

    #[test]
    fn a_key_names_fields_and_headers_in_one_spelling() {
        let read =
            names(" order_id ,customer . id, r#type,fn, 0, id.1, header( ce_id ), header, größe ").expect("legal");
        assert_eq!(read, ["order_id", "customer.id", "type", "fn", "0", "id.1", "header(ce_id)", "header", "größe"]);
    }

    #[test]
    fn every_illegal_part_is_quoted() {
        for part in [
            "a b",
            "a-b",
            "a..b",
            ".a",
            "a.",
            "9a",
            "00",
            "01",
            "4294967296",
            "self",
            "a.Self",
            "_",
            "a::b",
            "a()",
            "a[0]",
            "'a",
            "r#",
            "r#self",
            "header()",
            "header(a",
            "header a)",
            "header(a).b",
            "header(a b)",
            "header((a))",
            "Header(a)",
            "\u{202e}",
            "🦀",
            "a\nb",
            "a+",
        ] {
            let texts = names(&format!("ok, {part}")).expect_err(part);
            assert_eq!(texts.len(), 1, "{texts:?}");
            assert!(texts[0].contains(&format!("`{part}`")), "{texts:?}");
        }
    }

    #[test]
    fn empty_lists_empty_parts_and_repeats_are_mistakes() {
        for list in ["", "  ", ",", "a,", ",a", "a,,b", "a, a", "type, r#type", "header(a), header( a )", "a.b, a . b"]
        {
            names(list).expect_err(list);
        }
    }

    #[test]
    fn all_mistakes_of_a_list_are_found_at_once() {
        assert_eq!(names("a, a, 9b,, header()").expect_err("four mistakes").len(), 4);
    }

    #[test]
    fn a_very_long_list_is_only_long() {
        let list = (0..5_000).map(|n| format!("f{n}")).collect::<Vec<_>>().join(",");
        assert_eq!(names(&list).expect("legal").len(), 5_000);
        assert_eq!(names(&"x".repeat(100_000)).expect("legal").len(), 1);
    }

    #[test]
    fn compared_paths_take_any_wire_name() {
        let mut errors = Errors::default();
        let list = LitStr::new("amount-cents, $ref.id , 0.größe", Span::call_site());
        assert_eq!(wire_paths(&list, &mut errors), ["amount-cents", "$ref.id", "0.größe"]);
        assert!(errors.is_empty());
        for list in ["", "a,,b", "a, a", "a b", "a.", "header(x)", "a\"b"] {
            let mut errors = Errors::default();
            wire_paths(&LitStr::new(list, Span::call_site()), &mut errors);
            assert_eq!(errors.texts().len(), 1, "{list:?}");
        }
    }
}
