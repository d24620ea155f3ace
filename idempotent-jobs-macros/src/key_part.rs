//! `#[derive(KeyPart)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DataEnum, DataStruct, DeriveInput, Fields, Generics, Ident, Index, LitStr, Member, Type, Variant,
};

use crate::errors::Errors;
use crate::expand;

/// A type without a mistake; or, beside the mistakes, enough to stop others from following.
pub(crate) struct KeyPart {
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
    pub(crate) shape: Shape,
}

/// What a type's key part is made of.
pub(crate) enum Shape {
    /// The text of each variant.
    Texts(Vec<(Ident, String)>),
    /// The one field.
    Newtype { member: Member, ty: Box<Type> },
    /// Nothing: the type is refused.
    Wrong,
}

/// The mistakes and the `impl`.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let part = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => Some(KeyPart::read(input, &mut errors)),
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let mistakes = errors.into_tokens();
    let implementation = part.as_ref().map(expand::key_part);
    quote! { #mistakes #implementation }
}

impl KeyPart {
    fn read(input: DeriveInput, errors: &mut Errors) -> Self {
        refuse_key_attr(&input.attrs, errors);
        let before = errors.len();
        let shape = match &input.data {
            Data::Enum(data) => texts(&input.ident, data, errors),
            Data::Struct(data) => newtype(&input.ident, data, errors),
            Data::Union(data) => {
                errors.over(data.union_token, "no value of a union has one text: write a struct with one field");
                Shape::Wrong
            }
        };
        let shape = if errors.len() == before { shape } else { Shape::Wrong };
        Self { generics: bounded(input.generics, &shape), ident: input.ident, shape }
    }
}

/// A generic newtype is a key part where its field is one.
fn bounded(mut generics: Generics, shape: &Shape) -> Generics {
    if let (Shape::Newtype { ty, .. }, true) = (shape, generics.type_params().next().is_some()) {
        let bound = quote_spanned!(ty.span()=> #ty: __p::KeyPart);
        generics.make_where_clause().predicates.extend(syn::parse2::<syn::WherePredicate>(bound).ok());
    }
    generics
}

fn newtype(ident: &Ident, data: &DataStruct, errors: &mut Errors) -> Shape {
    for field in &data.fields {
        refuse_key_attr(&field.attrs, errors);
    }
    let mut fields = data.fields.iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        let text = match data.fields.len() {
            0 => format!("`{ident}` holds nothing a key could be made of: write `struct {ident}(u64);`"),
            count => format!(
                "`{ident}` has {count} fields, and a key part one: name the fields in `key` \
                 instead, as in `key = \"id.region, id.number\"`"
            ),
        };
        errors.at(ident.span(), text);
        return Shape::Wrong;
    };
    let member = field.ident.clone().map_or_else(|| Member::Unnamed(Index::from(0)), Member::Named);
    Shape::Newtype { member, ty: Box::new(field.ty.clone()) }
}

fn texts(ident: &Ident, data: &DataEnum, errors: &mut Errors) -> Shape {
    if data.variants.is_empty() {
        errors
            .at(ident.span(), format!("`{ident}` has no value, so it has no text: add a variant with `#[key(\"…\")]`"));
    }
    let mut texts: Vec<(Ident, String)> = Vec::new();
    for variant in &data.variants {
        let Some(text) = text_of(variant, errors) else { continue };
        match texts.iter().find(|(_, known)| *known == text.value()) {
            Some((other, _)) => errors.over(
                &text,
                format!("`{}` has the same text as `{other}`: two values of a key part need two texts", variant.ident),
            ),
            None => texts.push((variant.ident.clone(), text.value())),
        }
    }
    Shape::Texts(texts)
}

fn text_of(variant: &Variant, errors: &mut Errors) -> Option<LitStr> {
    let ident = &variant.ident;
    if !matches!(variant.fields, Fields::Unit) {
        errors.over(
            &variant.fields,
            format!(
                "`{ident}` carries data, and the text of a key part is \
                 fixed: remove the data, or name its fields in `key`"
            ),
        );
    }
    for field in &variant.fields {
        refuse_key_attr(&field.attrs, errors);
    }
    let mut attrs = variant.attrs.iter().filter(|attr| attr.path().is_ident("key"));
    let Some(attr) = attrs.next() else {
        let like = ident.to_string().to_lowercase();
        errors.at(
            ident.span(),
            format!(
                "`{ident}` has no text for the key: write \
                 `#[key(\"{like}\")]` above it, so that renaming it cannot change a key"
            ),
        );
        return None;
    };
    for again in attrs {
        errors.over(again, format!("`{ident}` has more than one text: keep one"));
    }
    match attr.parse_args::<LitStr>() {
        Ok(text) if text.value().is_empty() => {
            errors.over(text, format!("the text of `{ident}` is empty: write what stands in the key"));
        }
        Ok(text) => return Some(text),
        Err(_) => errors.over(attr, "write the text as one string: `#[key(\"charge\")]`"),
    }
    None
}

fn refuse_key_attr(attrs: &[Attribute], errors: &mut Errors) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("key")) {
        errors.over(attr, "`#[key(\"…\")]` goes on the variants of an enum: remove it here");
    }
}
