//! `#[idempotent_job]`: from what was written to a job that can be expanded.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitInt, Meta, Token};

use crate::args::Args;
use crate::duration::{self, Backoff};
use crate::errors::{Errors, quoted};
use crate::expand;
use crate::key::{self, Part};
use crate::names;
use crate::options::Given;
use crate::signature::{Function, Handler, Takes};

/// A job without a mistake; or, beside the mistakes, what of it can still be checked.
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
    /// The most payloads of one call, of a job that takes several.
    pub(crate) batch: Option<usize>,
    pub(crate) handler: Handler,
    /// The `#[cfg]`s of the function, which its registration shares.
    pub(crate) cfgs: Vec<Meta>,
}

/// Where a job's topic and key are declared.
pub(crate) enum Identity {
    /// In the attribute.
    Here { topic: String, key: Vec<Part> },
    /// In the payload's `JobMessage`.
    OfMessage,
}

/// The options that have a default in the runtime; `None` leaves it to that.
pub(crate) struct Settings {
    pub(crate) event: Option<String>,
    pub(crate) compare: Option<Vec<String>>,
    pub(crate) retries: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) timeout: Option<u64>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) on_exhausted: Option<&'static str>,
    /// How many later messages of a lane wait behind one that is given up.
    pub(crate) park: Option<u32>,
    pub(crate) on_conflict: Option<&'static str>,
    pub(crate) on_tombstone: Option<&'static str>,
    pub(crate) ordering: Option<&'static str>,
    pub(crate) shared_tx: Option<usize>,
}

/// A legal isolation level and the word that asked for it.
pub(crate) struct Isolation {
    pub(crate) word: Ident,
    pub(crate) variant: &'static str,
}

/// The item as it was, the mistakes, and the registration.
pub(crate) fn expand(args: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let job = Job::read(args, item, &mut errors);
    let mistakes = errors.into_tokens();
    let registration = job.as_ref().map(expand::job);
    quote! { #item #mistakes #registration }
}

impl Job {
    fn read(args: TokenStream, item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        let args = Args::parse(args, errors);
        let function = match syn::parse2::<Function>(item.clone()) {
            Ok(function) => function,
            Err(error) => {
                refuse_item(item, error, errors);
                return None;
            }
        };
        let cfgs = function.attrs.iter().filter_map(cfg).collect();
        let ident = function.sig.ident.clone();
        let name = name(args.name, &ident, errors);
        let identity = identity(args.topic, args.key, args.unclear, &ident, errors);
        keep_one(&args.shared_tx, &args.batch, errors);
        let takes = match &args.batch {
            Given::Absent if args.unclear => Takes::Unclear,
            Given::Absent => Takes::One,
            Given::Wrong | Given::Is(_) => Takes::Batch,
        };
        let batch = args.batch.and_then(errors, |number| several("batch", &number)).ok();
        let park = park((&args.on_exhausted, &args.park_limit, &args.ordering), args.unclear, errors);
        let settings = Settings {
            event: args.event.and_then(errors, |text| names::event(&text)).ok(),
            compare: args.compare.ok().map(|list| key::wire_paths(&list, errors)),
            retries: args.retries.and_then(errors, |number| retries(&number)).ok(),
            backoff: args.backoff.and_then(errors, |text| duration::backoff(&text)).ok(),
            timeout: args.timeout.and_then(errors, |text| duration::timeout(&text)).ok(),
            isolation: args.isolation.and_then(errors, isolation).ok(),
            on_exhausted: if park.is_some() {
                None
            } else {
                args.on_exhausted.and_then(errors, |word| fate("on_exhausted", EXHAUSTED, &word)).ok()
            },
            park,
            on_conflict: args.on_conflict.and_then(errors, |word| fate("on_conflict", CONFLICT, &word)).ok(),
            on_tombstone: args.on_tombstone.and_then(errors, |word| fate("on_tombstone", TOMBSTONE, &word)).ok(),
            ordering: args.ordering.and_then(errors, |word| ordering(&word)).ok(),
            shared_tx: args.shared_tx.and_then(errors, |number| several("shared_tx", &number)).ok(),
        };
        let handler = Handler::validate(function.sig, takes, errors);
        if !function.has_body {
            errors.at(ident.span(), "a job is a free function with a body: move it out of the trait");
            return None;
        }
        let handler = handler?;
        let batch = handler.batch.then(|| batch.unwrap_or_default());
        Some(Self { name, identity, settings, batch, handler, cfgs })
    }
}

fn name(written: Given<syn::LitStr>, ident: &Ident, errors: &mut Errors) -> String {
    let name = match written {
        Given::Is(text) => names::job(&text.value(), text.span()),
        Given::Absent => names::job(&ident.unraw().to_string(), ident.span()),
        Given::Wrong => return String::new(),
    };
    name.unwrap_or_else(|error| {
        errors.push(error);
        String::new()
    })
}

fn identity(
    topic: Given<syn::LitStr>,
    key: Given<syn::LitStr>,
    unclear: bool,
    ident: &Ident,
    errors: &mut Errors,
) -> Identity {
    if topic.is_absent() && key.is_absent() && !unclear {
        return Identity::OfMessage;
    }
    let alone = |written: &str, missing: &str, example: &str| {
        format!(
            "job `{ident}` has a `{written}` but no `{missing}`: write `{example}` too, \
             or leave both out to take them from the payload's `JobMessage`"
        )
    };
    match (&topic, &key) {
        (Given::Is(topic), Given::Absent) if !unclear => {
            errors.at(topic.span(), alone("topic", "key", "key = \"order_id\""));
        }
        (Given::Absent, Given::Is(key)) if !unclear => {
            errors.at(key.span(), alone("key", "topic", "topic = \"orders\""));
        }
        _ => {}
    }
    Identity::Here {
        topic: topic.and_then(errors, |text| names::topic(&text)).ok().unwrap_or_default(),
        key: key.ok().map(|list| key::parts(&list, errors)).unwrap_or_default(),
    }
}

fn retries(number: &LitInt) -> syn::Result<u32> {
    number.base10_parse().map_err(|_| {
        syn::Error::new(number.span(), format!("`{number}` is no number of attempts: write `retries = 5`"))
    })
}

fn keep_one(shared_tx: &Given<LitInt>, batch: &Given<LitInt>, errors: &mut Errors) {
    if let (Given::Is(shared_tx), Given::Is(_)) = (shared_tx, batch) {
        errors.at(
            shared_tx.span(),
            "the jobs of a `batch` share a transaction already: keep `shared_tx` or `batch`, not both",
        );
    }
}

/// How many jobs one transaction serves.
fn several(option: &str, number: &LitInt) -> syn::Result<usize> {
    match number.base10_parse() {
        Ok(several @ 2..=1000) => Ok(several),
        _ => {
            let text = format!(
                "`{number}` is no number of jobs for one transaction: write 2 to 1000, as in `{option} = 100`, \
                 or leave `{option}` out"
            );
            Err(syn::Error::new(number.span(), text))
        }
    }
}

/// Words for what becomes of a message that cannot be processed, and their variants.
type Fates = &'static [(&'static str, &'static str)];

/// `park` says more than a fate, and is read before.
const EXHAUSTED: Fates = &[("dead_letter", "DeadLetter"), ("park", "Park"), ("stop", "Stop")];
const CONFLICT: Fates = &[("dead_letter", "DeadLetter"), ("skip", "Skip"), ("fail", "Stop")];
const TOMBSTONE: Fates = &[("dead_letter", "DeadLetter"), ("skip", "Skip")];

fn fate(option: &str, fates: Fates, word: &Ident) -> syn::Result<&'static str> {
    let found = fates.iter().find(|(name, _)| word == name);
    found.map(|(_, variant)| *variant).ok_or_else(|| {
        let words = quoted(fates.iter().map(|(name, _)| name)).replace(" and ", " or ");
        syn::Error::new(word.span(), format!("`{word}` is nothing that `{option}` can do: write {words}"))
    })
}

/// Messages that may be parked behind one, unless `park_limit` says otherwise.
const PARK_LIMIT: u32 = 1_000;

/// How many messages wait behind one that is given up, with `on_exhausted = park`.
fn park(
    (on_exhausted, park_limit, ordering): (&Given<Ident>, &Given<LitInt>, &Given<Ident>),
    unclear: bool,
    errors: &mut Errors,
) -> Option<u32> {
    if !matches!(on_exhausted, Given::Is(word) if word == "park") {
        if let Given::Is(limit) = park_limit
            && !(unclear || matches!(on_exhausted, Given::Wrong))
        {
            errors
                .at(limit.span(), "only `on_exhausted = park` parks messages: write it too, or leave `park_limit` out");
        }
        return None;
    }
    if let Given::Is(ordering) = ordering
        && ordering == "none"
    {
        errors.at(
            ordering.span(),
            "with `ordering = none` no message waits for another, and none can be parked behind one: \
             write `key` or `partition`, or another `on_exhausted`",
        );
    }
    match park_limit {
        Given::Is(number) => Some(limit(number).unwrap_or_else(|error| {
            errors.push(error);
            PARK_LIMIT
        })),
        Given::Absent | Given::Wrong => Some(PARK_LIMIT),
    }
}

fn limit(number: &LitInt) -> syn::Result<u32> {
    match number.base10_parse() {
        Ok(limit @ 1..=1_000_000) => Ok(limit),
        _ => {
            let text =
                format!("`{number}` is no number of messages to park: write 1 to 1000000, as in `park_limit = 1000`");
            Err(syn::Error::new(number.span(), text))
        }
    }
}

fn ordering(word: &Ident) -> syn::Result<&'static str> {
    match word.to_string().as_str() {
        "key" => Ok("Key"),
        "partition" => Ok("Partition"),
        "none" => Ok("None"),
        other => {
            let text = format!("`{other}` is no ordering: write `key`, `partition` or `none`");
            Err(syn::Error::new(word.span(), text))
        }
    }
}

fn isolation(word: Ident) -> syn::Result<Isolation> {
    let variant = match word.to_string().as_str() {
        "read_committed" => "ReadCommitted",
        "repeatable_read" => "RepeatableRead",
        "serializable" => "Serializable",
        other => {
            let text =
                format!("`{other}` is no isolation level: write `read_committed`, `repeatable_read` or `serializable`");
            return Err(syn::Error::new(word.span(), text));
        }
    };
    Ok(Isolation { word, variant })
}

/// What decides whether the function is there: `cfg`, and `cfg_attr` as far as it leads to a `cfg`.
fn cfg(attr: &Attribute) -> Option<Meta> {
    cfg_of(&attr.meta)
}

fn cfg_of(meta: &Meta) -> Option<Meta> {
    if meta.path().is_ident("cfg") {
        return Some(meta.clone());
    }
    let Meta::List(list) = meta else { return None };
    if !list.path.is_ident("cfg_attr") {
        return None;
    }
    let metas = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let (condition, attrs) = (metas.first()?, metas.iter().skip(1));
    let cfgs: Vec<_> = attrs.filter_map(cfg_of).collect();
    if cfgs.is_empty() {
        return None;
    }
    syn::parse2(quote! { cfg_attr(#condition, #(#cfgs),*) }).ok()
}

/// Says so of what is not a function, at the keyword that says what it is.
fn refuse_item(item: &TokenStream, unreadable: syn::Error, errors: &mut Errors) {
    const KINDS: [&str; 11] =
        ["struct", "enum", "union", "trait", "impl", "mod", "const", "static", "type", "use", "fn"];
    let keyword = item.clone().into_iter().find(|token| KINDS.contains(&token.to_string().as_str()));
    let subject = match keyword {
        Some(keyword) if keyword.to_string() == "fn" => return errors.push(unreadable),
        Some(keyword) => keyword.into_token_stream(),
        None => item.clone(),
    };
    errors.over(subject, "`#[idempotent_job]` goes on a function: write it above an `async fn`");
}
