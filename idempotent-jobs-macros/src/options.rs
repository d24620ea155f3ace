//! `name = value, …` as written in an attribute, read piece by piece so that one mistake hides no other.

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitInt, LitStr, Token};

use crate::errors::{Errors, quoted};

/// An option an attribute knows.
pub(crate) struct Legal {
    /// Its name.
    pub(crate) name: &'static str,
    /// How it is written, for messages.
    pub(crate) example: &'static str,
}

/// What became of an option.
#[derive(Debug)]
pub(crate) enum Given<T> {
    /// Not written.
    Absent,
    /// Written with a mistake, which is reported already.
    Wrong,
    /// Written well.
    Is(T),
}

impl<T> Given<T> {
    /// Whether it was not written.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// The value, if it was written well.
    pub(crate) fn ok(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Wrong => None,
        }
    }

    /// Reads the value further; a mistake is reported.
    pub(crate) fn and_then<U>(self, errors: &mut Errors, read: impl FnOnce(T) -> syn::Result<U>) -> Given<U> {
        match self {
            Self::Absent => Given::Absent,
            Self::Wrong => Given::Wrong,
            Self::Is(value) => match read(value) {
                Ok(read) => Given::Is(read),
                Err(error) => {
                    errors.push(error);
                    Given::Wrong
                }
            },
        }
    }
}

/// The options of one attribute.
pub(crate) struct Options {
    legal: &'static [Legal],
    written: Vec<Written>,
    /// Whether a piece could not be told: something that looks missing may be in there.
    pub(crate) unclear: bool,
}

struct Written {
    name: Ident,
    value: TokenStream,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        if !input.is_empty() {
            input.parse::<Token![=]>()?;
        }
        Ok(Self { name, value: input.parse()? })
    }
}

impl Options {
    /// Reads `tokens`, the inside of `attribute`; unknown and repeated options are reported here.
    pub(crate) fn parse(attribute: &str, legal: &'static [Legal], tokens: TokenStream, errors: &mut Errors) -> Self {
        let names = quoted(legal.iter().map(|option| option.name));
        let known = format!("the options of `{attribute}` are {names}");
        let mut options = Self { legal, written: Vec::new(), unclear: false };
        for piece in pieces(tokens, errors) {
            if let Ok(written) = syn::parse2(piece.clone()) {
                options.add(written, &known, errors);
            } else {
                options.unclear = true;
                errors.over(piece, format!("an option is written `name = value`; {known}"));
            }
        }
        options
    }

    fn add(&mut self, written: Written, known: &str, errors: &mut Errors) {
        let name = written.name.to_string();
        if !self.legal.iter().any(|option| option.name == name) {
            self.unclear = true;
            errors.at(written.name.span(), format!("unknown option `{name}`; {known}"));
        } else if self.written.iter().any(|other| other.name == name) {
            errors.at(written.name.span(), format!("`{name}` is given more than once: keep one"));
        } else {
            self.written.push(written);
        }
    }

    /// A string literal.
    pub(crate) fn text(&self, name: &str, errors: &mut Errors) -> Given<LitStr> {
        self.read(name, "a string literal", errors, |text: &LitStr| text.suffix().is_empty())
    }

    /// A whole number, without a suffix.
    pub(crate) fn number(&self, name: &str, errors: &mut Errors) -> Given<LitInt> {
        self.read(name, "a whole number", errors, |number: &LitInt| number.suffix().is_empty())
    }

    /// A bare word.
    pub(crate) fn word(&self, name: &str, kind: &str, errors: &mut Errors) -> Given<Ident> {
        self.read(name, kind, errors, |_: &Ident| true)
    }

    fn read<T: Parse>(&self, name: &str, kind: &str, errors: &mut Errors, fits: impl FnOnce(&T) -> bool) -> Given<T> {
        let Some(written) = self.written.iter().find(|written| written.name == name) else {
            return Given::Absent;
        };
        match syn::parse2::<T>(written.value.clone()) {
            Ok(value) if fits(&value) => return Given::Is(value),
            _ if written.value.is_empty() => {
                let text = format!("`{name}` has no value: write `{}`", self.example(name));
                errors.at(written.name.span(), text);
            }
            _ => {
                let text = format!("`{name}` takes {kind}: write `{}`", self.example(name));
                errors.over(&written.value, text);
            }
        }
        Given::Wrong
    }

    /// How an option is written, for messages.
    pub(crate) fn example(&self, name: &str) -> &'static str {
        self.legal.iter().find(|option| option.name == name).map_or("", |option| option.example)
    }
}

/// Splits at commas; only a comma with nothing before it is a mistake.
fn pieces(tokens: TokenStream, errors: &mut Errors) -> Vec<TokenStream> {
    let mut pieces = Vec::new();
    let mut piece = TokenStream::new();
    for token in tokens {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => match std::mem::take(&mut piece) {
                empty if empty.is_empty() => {
                    errors.at(comma.span(), "a comma with no option before it: remove it");
                }
                full => pieces.push(full),
            },
            other => piece.extend([other]),
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}
