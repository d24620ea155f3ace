//! The function under the attribute: its signature is read, its body never.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, ConstParam, FnArg, GenericArgument, GenericParam, Ident, PatType, PathArguments, ReturnType, Safety,
    Signature, Type, TypeParam, TypePath, Visibility, token,
};

use crate::errors::Errors;

/// A function as written.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) sig: Signature,
    /// Whether it is more than the declaration of a trait's method.
    pub(crate) has_body: bool,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let sig = input.parse()?;
        let has_body = input.peek(token::Brace);
        input.parse::<TokenStream>()?;
        Ok(Self { attrs, sig, has_body })
    }
}

/// How many payloads the attribute has a job take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// One.
    One,
    /// Several at once.
    Batch,
    /// One, unless an option that was not understood meant several.
    Unclear,
}

/// A function whose types can be named outside of it, as a job's must be.
pub(crate) struct Handler {
    pub(crate) ident: Ident,
    pub(crate) handle: Type,
    /// The type of one payload.
    pub(crate) payload: Type,
    /// Whether the payload and the extractors come as lists.
    pub(crate) batch: bool,
    pub(crate) extractors: Vec<Type>,
    /// What it returns, and whether it can be called as a job: without it the types are checked
    /// all the same.
    pub(crate) output: Option<Type>,
}

impl Handler {
    /// Reports what a job's signature must not be. `None`: too wrong for its types to be checked.
    pub(crate) fn validate(sig: Signature, takes: Takes, errors: &mut Errors) -> Option<Self> {
        let mut found = Errors::default();
        qualifiers(&sig, &mut found);
        let closing = sig.paren_token.span.close();
        let mut arguments = sig.inputs.iter().filter_map(typed);
        let handle = first(arguments.next(), closing, &mut found);
        let payload = second(arguments.next(), handle.is_none(), closing, takes, &mut found);
        let extractors: Vec<_> = arguments.filter_map(|argument| fixed(argument, "extractor", &mut found)).collect();
        let output = output(&sig, &mut found);
        let nameable = sig.generics.params.is_empty() && sig.receiver().is_none();
        let callable = found.is_empty();
        errors.extend(found);
        let (payload, batch) = payload?;
        Some(Self {
            handle: handle.filter(|_| nameable)?,
            payload,
            batch,
            extractors,
            output: output.filter(|_| callable),
            ident: sig.ident,
        })
    }
}

fn typed(argument: &FnArg) -> Option<&PatType> {
    match argument {
        FnArg::Receiver(_) => None,
        FnArg::Typed(argument) => Some(argument),
    }
}

fn first(argument: Option<&PatType>, closing: Span, errors: &mut Errors) -> Option<Type> {
    let Some(argument) = argument else {
        let write = "write `tx: &mut PgTx, job: YourPayload`";
        errors.at(closing, format!("a job takes the transaction it is lent, and its payload: {write}"));
        return None;
    };
    handle(&argument.ty, errors)
}

/// The type of a payload, and whether several are taken.
fn second(
    argument: Option<&PatType>,
    said: bool,
    closing: Span,
    takes: Takes,
    errors: &mut Errors,
) -> Option<(Type, bool)> {
    let Some(argument) = argument else {
        if !said {
            let write = if takes == Takes::Batch { "jobs: Vec<YourPayload>" } else { "job: YourPayload" };
            errors.at(closing, format!("a job takes its payload after the handle: write `{write}`"));
        }
        return None;
    };
    if let Type::Reference(reference) = bare(&argument.ty) {
        let write = match bare(&reference.elem) {
            Type::Slice(slice) => format!("`Vec<{}>`", slice.elem.to_token_stream()),
            owned => format!("`{}`, without the `&`", owned.to_token_stream()),
        };
        errors.over(&argument.ty, format!("a job owns its payload: write {write}"));
        return None;
    }
    payload(fixed(argument, "payload", errors)?, takes, errors)
}

fn payload(ty: Type, takes: Takes, errors: &mut Errors) -> Option<(Type, bool)> {
    match (listed(&ty), takes) {
        (Some(one), Takes::One) => {
            let text = "a job takes one payload, and a batch job a list: add `batch = 100` to the attribute";
            errors.over(&ty, text);
            Some((one.clone(), true))
        }
        (Some(one), Takes::Batch | Takes::Unclear) => Some((one.clone(), true)),
        (None, Takes::Batch) => {
            let one = ty.to_token_stream();
            errors.over(&ty, format!("a batch job takes its payloads as a list: write `jobs: Vec<{one}>`"));
            Some((ty, true))
        }
        (None, Takes::One | Takes::Unclear) => Some((ty, false)),
    }
}

/// The `T` of a type written `Vec<T>`.
fn listed(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { qself: None, path, .. }) = bare(ty) else { return None };
    let last = path.segments.last().filter(|segment| segment.ident == "Vec")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(one)) if arguments.args.len() == 1 => Some(bare(one)),
        _ => None,
    }
}

/// Everything that is not an argument or the return type.
fn qualifiers(sig: &Signature, errors: &mut Errors) {
    if let Some(constness) = &sig.constness {
        errors.over(constness, "a job runs when a message arrives: remove `const`");
    }
    if sig.asyncness.is_none() {
        errors.over(sig.fn_token, "a job is asynchronous: write `async fn`");
    }
    if let Safety::Unsafe(_) | Safety::Safe(_) = &sig.safety {
        errors.over(
            &sig.safety,
            "a job is called by safe code: remove this and put `unsafe` blocks \
             inside",
        );
    }
    if let Some(abi) = &sig.abi {
        errors.over(abi, "a job is called by Rust code: remove `extern`");
    }
    sig.generics.params.iter().for_each(|parameter| refuse_parameter(parameter, errors));
    if let Some(clause) = &sig.generics.where_clause {
        errors.over(clause, "a job has nothing generic to bound: remove the `where` clause");
    }
    if let Some(variadic) = &sig.variadic {
        errors.over(variadic, "a job has a fixed number of arguments: remove `...`");
    }
    if let Some(receiver) = sig.receiver() {
        errors.over(
            receiver.self_token,
            "a job is a free function: move it out of the `impl` block \
             and take `State<T>` for what `self` holds",
        );
    }
}

fn refuse_parameter(parameter: &GenericParam, errors: &mut Errors) {
    match parameter {
        GenericParam::Lifetime(lifetime) => {
            errors.over(lifetime, format!("a job's arguments need no lifetimes: remove `{}`", lifetime.lifetime));
        }
        GenericParam::Type(TypeParam { ident, .. }) | GenericParam::Const(ConstParam { ident, .. }) => {
            errors.over(
                parameter,
                format!("a job is registered once, with types that are known: write a type instead of `{ident}`"),
            );
        }
    }
}

fn output(sig: &Signature, errors: &mut Errors) -> Option<Type> {
    match &sig.output {
        ReturnType::Default => {
            errors
                .at(sig.paren_token.span.close(), "a job says how it went: write `-> JobResult` and end with `Ok(())`");
            None
        }
        ReturnType::Type(_, output) if flat(output.to_token_stream()).iter().any(|token| is_word(token, "impl")) => {
            errors.over(output, "a job says how it went: write `-> JobResult`");
            None
        }
        ReturnType::Type(_, output) => Some((**output).clone()),
    }
}

fn handle(ty: &Type, errors: &mut Errors) -> Option<Type> {
    if let Type::Reference(reference) = bare(ty) {
        let handle = bare(&reference.elem);
        let named =
            matches!(handle, Type::Path(_) | Type::Macro(_)) && borrowed(&flat(handle.to_token_stream())).is_none();
        let forever = reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static");
        if reference.mutability.is_some() && !forever && named {
            return Some(handle.clone());
        }
    }
    let write = "write `tx: &mut PgTx` or `tx: &mut SqliteTx`";
    errors.over(ty, format!("a job's first argument is the transaction it is lent: {write}"));
    None
}

/// A type that can be written down outside of the signature.
fn fixed(argument: &PatType, role: &str, errors: &mut Errors) -> Option<Type> {
    if let Some(attr) =
        argument.attrs.iter().find(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
    {
        errors.over(attr, "a job has the same arguments in every build: put the `cfg` on two functions instead");
        return None;
    }
    let ty = bare(&argument.ty);
    let tokens = flat(ty.to_token_stream());
    if let Some(token) = tokens.iter().find(|token| is_word(token, "impl")) {
        errors.at(
            token.span(),
            format!(
                "a job's {role} is of one type: write its name instead of \
                 `impl …`"
            ),
        );
        return None;
    }
    if let Some(span) = borrowed(&tokens) {
        errors.at(span, format!("a job's {role} owns its data: write a type that borrows nothing"));
        return None;
    }
    Some(ty.clone())
}

/// Where the first `'_` of a type is.
fn borrowed(tokens: &[TokenTree]) -> Option<Span> {
    let anonymous = |pair: &&[TokenTree]| {
        matches!(&pair[0], TokenTree::Punct(quote) if quote.as_char() == '\'') && is_word(&pair[1], "_")
    };
    tokens.windows(2).find(anonymous).map(|pair| pair[0].span())
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// The tokens without their groups.
fn flat(tokens: TokenStream) -> Vec<TokenTree> {
    let inside = |token| match token {
        TokenTree::Group(group) => flat(group.stream()),
        token => vec![token],
    };
    tokens.into_iter().flat_map(inside).collect()
}

/// Without the invisible group a `macro_rules!` fragment puts around it, and without parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}
