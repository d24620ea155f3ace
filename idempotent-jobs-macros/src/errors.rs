//! All mistakes at once: readers and checks push, and the caller emits the whole list.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The mistakes found so far, in the order found.
#[derive(Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// A mistake at one token.
    pub(crate) fn at(&mut self, span: Span, text: impl Display) {
        self.0.push(syn::Error::new(span, text));
    }

    /// A mistake that spans all of `tokens`.
    pub(crate) fn over(&mut self, tokens: impl ToTokens, text: impl Display) {
        self.0.push(syn::Error::new_spanned(tokens, text));
    }

    /// A mistake found by the parser.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    /// Takes over the mistakes found elsewhere.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One `compile_error!` for each mistake.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }

    /// The texts alone, for tests.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

/// `` `a`, `b` and `c` ``, for messages.
pub(crate) fn quoted<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.pop() {
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} and {last}", names.join(", ")),
        None => String::new(),
    }
}
