//! `#[derive(JobMessage)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Ident, LitStr, Member, Meta, Token};

use crate::errors::Errors;
use crate::expand;
use crate::key::{self, Part, Source};
use crate::names;
use crate::options::{Given, Legal, Options};

const LEGAL: &[Legal] = &[
    Legal { name: "topic", example: r#"topic = "orders""# },
    Legal { name: "key", example: r#"key = "order_id, op""# },
    Legal { name: "partition_by", example: r#"partition_by = "order_id""# },
    Legal { name: "event", example: r#"event = "order_placed""# },
];

/// A message without a mistake; or, beside the mistakes, what of it can still be checked.
pub(crate) struct Message {
    pub(crate) ident: Ident,
    pub(crate) topic: String,
    pub(crate) key: Vec<Part>,
    pub(crate) partition_by: Option<Part>,
    pub(crate) event: Option<String>,
}

/// The mistakes and the `impl`.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let message = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => Message::read(&input, &mut errors),
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let mistakes = errors.into_tokens();
    let implementation = message.as_ref().map(expand::message);
    quote! { #mistakes #implementation }
}

impl Message {
    fn read(input: &DeriveInput, errors: &mut Errors) -> Option<Self> {
        let fields = fields(input, errors);
        let options = options(input, errors);
        let topic = required(&options, "topic", &input.ident, errors).and_then(errors, |text| names::topic(&text));
        let key = required(&options, "key", &input.ident, errors);
        let partition_by = options.text("partition_by", errors).and_then(errors, |text| key::field(&text));
        let event = options.text("event", errors).and_then(errors, |text| names::event(&text));
        let fields = fields?;
        let key = key.ok().map(|list| key_of(&list, input, fields, errors)).unwrap_or_default();
        Some(Self {
            ident: input.ident.clone(),
            topic: topic.ok().unwrap_or_default(),
            key,
            partition_by: partition_by.ok().and_then(|part| belonging(part, input, fields, errors)),
            event: event.ok(),
        })
    }
}

/// The named fields of a struct without parameters.
fn fields<'a>(input: &'a DeriveInput, errors: &mut Errors) -> Option<&'a Punctuated<Field, Token![,]>> {
    let refused = "a job message is a struct with named fields, which its key is made of: write \
                   `struct Charge { order_id: u64 }`";
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(&fields.named),
            Fields::Unnamed(_) | Fields::Unit => {
                errors.at(input.ident.span(), refused);
                None
            }
        },
        Data::Enum(data) => {
            errors.over(data.enum_token, refused);
            None
        }
        Data::Union(data) => {
            errors.over(data.union_token, refused);
            None
        }
    };
    if !input.generics.params.is_empty() {
        errors.over(
            &input.generics.params,
            "a job message is of one type: write its types out instead of generic parameters",
        );
        return None;
    }
    fields
}

fn options(input: &DeriveInput, errors: &mut Errors) -> Options {
    let mut written = TokenStream::new();
    let mut seen = false;
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("message")) {
        match &attr.meta {
            Meta::List(list) if !seen => written = list.tokens.clone(),
            Meta::List(_) => {
                errors.over(attr, "`#[message(…)]` is given more than once: put all options in one");
            }
            Meta::Path(_) | Meta::NameValue(_) => {
                errors.over(attr, "write `#[message(topic = \"orders\", key = \"order_id\")]`");
            }
        }
        seen = true;
    }
    let mut options = Options::parse("#[message]", LEGAL, written, errors);
    if !seen {
        options.unclear = true;
        errors.at(
            input.ident.span(),
            format!(
                "`{}` does not say where it is sent: \
                 write `#[message(topic = \"orders\", key = \"order_id\")]` above it",
                input.ident
            ),
        );
    }
    options
}

fn required(options: &Options, name: &str, ident: &Ident, errors: &mut Errors) -> Given<LitStr> {
    let given = options.text(name, errors);
    if given.is_absent() && !options.unclear {
        let example = options.example(name);
        let text = format!("`{ident}` has no `{name}`: write `{example}` in its `#[message(…)]`");
        errors.at(ident.span(), text);
    }
    given
}

fn key_of(list: &LitStr, input: &DeriveInput, fields: &Punctuated<Field, Token![,]>, errors: &mut Errors) -> Vec<Part> {
    let mut key = Vec::new();
    for part in key::parts(list, errors) {
        if let Source::Header(_) = part.source {
            let name = &part.name;
            let why = "a message's key is computed from its own fields, so that a resend has the same one";
            errors.at(part.span, format!("`{name}` is a header, and {why}: name a field, as in `key = \"order_id\"`"));
            continue;
        }
        key.extend(belonging(part, input, fields, errors));
    }
    refuse_container_default(&key, input, errors);
    for field in fields.iter().filter(|field| key.iter().any(|part| begins_with(part, field))) {
        refuse_doubtful_presence(field, errors);
    }
    key
}

/// The part, standing at the type of its field if it is that field whole.
fn belonging(
    mut part: Part,
    input: &DeriveInput,
    fields: &Punctuated<Field, Token![,]>,
    errors: &mut Errors,
) -> Option<Part> {
    let Some(field) = fields.iter().find(|field| begins_with(&part, field)) else {
        let known: Vec<_> =
            fields.iter().filter_map(|field| field.ident.as_ref()).map(|ident| ident.unraw().to_string()).collect();
        errors.at(part.span, key::missing_field(&input.ident, &part.name, &known));
        return None;
    };
    if matches!(&part.source, Source::Field(path) if path.len() == 1) {
        part.span = field.ty.span();
    }
    Some(part)
}

fn begins_with(part: &Part, field: &Field) -> bool {
    match (part.first_field(), &field.ident) {
        (Some(Member::Named(first)), Some(ident)) => first.unraw() == ident.unraw(),
        _ => false,
    }
}

/// A key must not hang on a value that was not in the message.
fn refuse_doubtful_presence(field: &Field, errors: &mut Errors) {
    const DOUBTFUL: [&str; 5] = ["default", "skip", "skip_serializing", "skip_deserializing", "skip_serializing_if"];
    let name = field.ident.as_ref().map(|ident| ident.unraw().to_string()).unwrap_or_default();
    for meta in serde_metas(&field.attrs) {
        if let Some(word) = meta.path().get_ident().filter(|word| DOUBTFUL.iter().any(|doubtful| word == doubtful)) {
            errors.over(&meta, format!("`{name}` is part of the key, so it is in every message: remove `{word}`"));
        }
    }
}

fn refuse_container_default(key: &[Part], input: &DeriveInput, errors: &mut Errors) {
    for meta in serde_metas(&input.attrs).filter(|meta| meta.path().is_ident("default")) {
        if let Some(part) = key.first() {
            let text = format!(
                "a message without `{}` would get its key from a default: put `#[serde(default)]` \
                 on the fields that are not in the key",
                part.name
            );
            errors.over(meta, text);
        }
    }
}

fn serde_metas(attrs: &[Attribute]) -> impl Iterator<Item = Meta> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("serde"))
        .filter_map(|attr| attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok())
        .flatten()
}
