//! What the macros write. Nothing here can fail, and nothing here decides.
//!
//! A generated block is a call of the runtime, short enough to be read with `cargo expand`. It
//! names only `::idempotent_jobs::__private` and the user's own tokens, so that it does not matter
//! what the user's `Ok`, `Result` or prelude are. Tokens that can raise a type error stand at
//! the user's token that is at fault, but count as the macro's, so that lints leave them alone.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Member;

use crate::duration::Backoff;
use crate::job::{Identity, Job, Settings};
use crate::key::{Part, Source};
use crate::key_part::{KeyPart, Shape};
use crate::message::Message;
use crate::signature::Handler;

/// The registration of a job.
pub(crate) fn job(job: &Job) -> TokenStream {
    let cfgs = &job.cfgs;
    let entry = entry(job);
    let register = register(job);
    quote! {
        #(#[#cfgs])*
        const _: () = {
            use ::idempotent_jobs::__private as __p;
            #entry
            #register
            __p::inventory::submit! { __p::Registration(__register) }
        };
    }
}

/// The function that enters the handler; none if it cannot be entered.
fn entry(job: &Job) -> Option<TokenStream> {
    let handler = &job.handler;
    let output = handler.output.as_ref()?;
    let (ident, handle, payload) = (&handler.ident, &handler.handle, &handler.payload);
    let extractors = &handler.extractors;
    let (payload, context, extract) = if handler.batch {
        (quote!(__p::Vec<#payload>), quote!([__p::Context]), quote!(extract_batch))
    } else {
        (quote!(#payload), quote!(__p::Context), quote!(extract))
    };
    let extractor = extractor(handler);
    let call = quote!(#ident(__tx, __job #(, <#extractors as #extractor>::#extract(__cx)?)*).await);
    let running = quote_spanned! {here(ident.span())=>
        __p::boxed(async move { <#output as __p::Returned>::result(#call) })
    };
    Some(quote! {
        fn __entry<'__a>(__tx: &'__a mut #handle, __job: #payload, __cx: &'__a #context) -> __p::Running<'__a> {
            #running
        }
    })
}

fn register(job: &Job) -> TokenStream {
    let Handler { handle, payload, extractors, .. } = &job.handler;
    let entry = if job.handler.output.is_some() { quote!(__entry) } else { quote!(__p::no_entry) };
    let name = &job.name;
    let (from, key) = match &job.identity {
        Identity::Here { topic, key } => (quote!(#topic), key.as_slice()),
        Identity::OfMessage => (quote!(__p::message::<#payload>()), &[][..]),
    };
    let declare = match (&job.identity, job.batch) {
        (Identity::Here { .. }, None) => quote!(new(#name, #from, #entry)),
        (Identity::Here { .. }, Some(limit)) => quote!(batch(#name, #from, #limit, #entry)),
        (Identity::OfMessage, None) => quote!(of_message(#name, #from, #entry)),
        (Identity::OfMessage, Some(limit)) => quote!(batch_of_message(#name, #from, #limit, #entry)),
    };
    let parts = key.iter().map(|part| part_of(part, &payload.to_token_stream()));
    let settings = settings(&job.settings);
    let extractor = extractor(&job.handler);
    quote! {
        fn __register() -> __p::Registered {
            let __job = __p::Declaration::#declare
                #(.key(#parts))*
                #settings
                #(.argument(<#extractors as #extractor>::check))*;
            __p::register::<#handle, #payload>()(__job)
        }
    }
}

/// What the further arguments implement.
fn extractor(handler: &Handler) -> TokenStream {
    if handler.batch { quote!(__p::ExtractBatch) } else { quote!(__p::Extract) }
}

/// `part` of the key of `payload`.
fn part_of(part: &Part, payload: &TokenStream) -> TokenStream {
    let (name, span) = (&part.name, here(part.span));
    match &part.source {
        Source::Header(header) => quote_spanned! {span=> __p::Part::header(#name, #header) },
        Source::Field(path) => {
            let path = path.iter().map(|member| standing_at(member, span));
            quote_spanned! {span=> __p::field(#name, |__job: &#payload| &__job #(.#path)*) }
        }
    }
}

/// The member where its part is. Were it the user's own token, rustc would offer to replace the
/// whole literal by the name of a similar field.
fn standing_at(member: &Member, span: Span) -> Member {
    let mut member = member.clone();
    match &mut member {
        Member::Named(ident) => ident.set_span(span),
        Member::Unnamed(index) => index.span = span,
    }
    member
}

fn settings(settings: &Settings) -> TokenStream {
    let event = settings.event.as_ref().map(|event| quote!(.event(#event)));
    let compare = settings.compare.as_ref().map(|paths| quote!(.compare(&[#(#paths),*])));
    let retries = settings.retries.map(|retries| quote!(.retries(#retries)));
    let backoff = settings.backoff.map(|Backoff { min_ms, max_ms }| quote!(.backoff(#min_ms, #max_ms)));
    let timeout = settings.timeout.map(|ms| quote!(.timeout(#ms)));
    let isolation = settings.isolation.as_ref().map(|isolation| {
        let level = Ident::new(isolation.variant, Span::call_site());
        quote_spanned!(here(isolation.word.span())=> .isolation(__p::Isolation::#level))
    });
    let fate = |fate: Option<&'static str>, option: TokenStream| {
        fate.map(|fate| {
            let fate = Ident::new(fate, Span::call_site());
            quote!(.#option(__p::Fate::#fate))
        })
    };
    let on_exhausted = fate(settings.on_exhausted, quote!(on_exhausted));
    let park = settings.park.map(|limit| quote!(.park(#limit)));
    let on_conflict = fate(settings.on_conflict, quote!(on_conflict));
    let on_tombstone = fate(settings.on_tombstone, quote!(on_tombstone));
    let ordering = settings.ordering.map(|ordering| {
        let ordering = Ident::new(ordering, Span::call_site());
        quote!(.ordering(__p::Ordering::#ordering))
    });
    let shared_tx = settings.shared_tx.map(|limit| quote!(.shared_tx(#limit)));
    quote! {
        #event #compare #retries #backoff #timeout #isolation #on_exhausted #park #on_conflict #on_tombstone #ordering #shared_tx
    }
}

/// `impl JobMessage`.
pub(crate) fn message(message: &Message) -> TokenStream {
    let Message { ident, topic, .. } = message;
    let this = quote!(Self);
    let parts = message.key.iter().map(|part| part_of(part, &this));
    let event = option(message.event.as_ref());
    let partition_by = option(message.partition_by.as_ref().map(placed_by));
    quote! {
        const _: () = {
            use ::idempotent_jobs::__private as __p;
            #[automatically_derived]
            impl __p::JobMessage for #ident {
                const TOPIC: &'static str = #topic;
                const EVENT: __p::Option<&'static str> = #event;
                fn key_parts() -> __p::Vec<__p::Part<Self>> {
                    __p::parts([#(#parts),*])
                }
                fn partition_by(&self) -> __p::Option<__p::KeyValue<'_>> {
                    #partition_by
                }
            }
        };
    }
}

fn placed_by(part: &Part) -> TokenStream {
    let span = here(part.span);
    let path = match &part.source {
        Source::Field(path) => path.as_slice(),
        Source::Header(_) => &[],
    };
    let path = path.iter().map(|member| standing_at(member, span));
    quote_spanned! {span=> __p::KeyPart::value(&self #(.#path)*) }
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    value.map_or_else(|| quote!(__p::Option::None), |value| quote!(__p::Option::Some(#value)))
}

/// `impl KeyPart`.
pub(crate) fn key_part(part: &KeyPart) -> TokenStream {
    let ident = &part.ident;
    let (kind, value) = match &part.shape {
        Shape::Texts(texts) => (quote!("text"), texts_of(texts)),
        Shape::Newtype { member, ty } => {
            (quote!(<#ty as __p::KeyPart>::KIND), quote!(<#ty as __p::KeyPart>::value(&self.#member)))
        }
        Shape::Wrong => (quote!("text"), quote!(__p::text(""))),
    };
    let (impl_generics, ty_generics, where_clause) = part.generics.split_for_impl();
    quote! {
        const _: () = {
            use ::idempotent_jobs::__private as __p;
            #[automatically_derived]
            impl #impl_generics __p::KeyPart for #ident #ty_generics #where_clause {
                const KIND: &'static str = #kind;
                fn value(&self) -> __p::KeyValue<'_> {
                    #value
                }
            }
        };
    }
}

fn texts_of(texts: &[(Ident, String)]) -> TokenStream {
    let arms = texts.iter().map(|(variant, text)| quote!(Self::#variant => #text));
    quote!(__p::text(match self { #(#arms),* }))
}

/// The macro's own token, standing where the user's is.
fn here(place: Span) -> Span {
    Span::call_site().located_at(place)
}
