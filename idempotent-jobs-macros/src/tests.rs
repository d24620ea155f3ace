//! The expansions as a reader of `cargo expand` sees them, and what must hold for each.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p idempotent-jobs-macros` writes `snapshots/` anew.

use std::path::PathBuf;
use std::{env, fs};

use proc_macro2::TokenStream;
use quote::quote;

use crate::{job, key_part, message};

const UPDATE: &str = "UPDATE_SNAPSHOTS";

/// Pretty-prints, and compares with `snapshots/<name>.rs`.
fn assert_snapshot(name: &str, expansion: TokenStream) {
    let file = syn::parse2(expansion).expect("an expansion is a list of items");
    let text = prettyplease::unparse(&file);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name).with_extension("rs");
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &text).expect("the snapshot can be written");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "{} differs: look, then run again with {UPDATE}=1", path.display());
}

/// The item of `README.md` and DESIGN, as written.
fn readme() -> (TokenStream, TokenStream) {
    let args = quote!(topic = "orders", key = "order_id, op");
    let item = quote! {
        async fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
            sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
                .bind(job.order_id as i64).bind(job.amount_cents)
                .execute(&mut *tx).await?;
            Ok(())
        }
    };
    (args, item)
}

fn mistakes(expansion: &TokenStream) -> usize {
    expansion.to_string().matches("compile_error").count()
}

/// The block after the item is read at one glance.
fn assert_short(expansion: &TokenStream, item: TokenStream) {
    let block: TokenStream = expansion.clone().into_iter().skip(item.into_iter().count()).collect();
    let text = prettyplease::unparse(&syn::parse2(block).expect("one item"));
    assert!(text.lines().count() < 25, "{} lines:\n{text}", text.lines().count());
}

#[test]
fn a_job_becomes_a_short_block() {
    let (args, item) = readme();
    let expansion = job::expand(args, &item);
    assert_short(&expansion, item);
    assert_snapshot("job", expansion);
}

#[test]
fn a_job_with_everything() {
    let args = quote! {
        topic = "orders", key = "order_id, customer.id, header(ce_id), r#type, pair.0",
        name = "orders.charge", event = "charged", compare = "amount_cents, customer.id",
        retries = 3, backoff = "50ms..1m", timeout = "10s", isolation = serializable,
        on_exhausted = stop, on_conflict = fail, on_tombstone = skip, ordering = partition, shared_tx = 50,
    };
    let item = quote! {
        /// Charges.
        #[cfg(unix)]
        #[cfg_attr(test, cfg(not(miri)), inline)]
        #[must_use]
        pub(crate) async fn charge(tx: &mut PgTx, Charge { order_id, .. }: Charge, State(db): State<Db>, meta: Meta) -> JobResult {
            Ok(())
        }
    };
    assert_snapshot("job_with_everything", job::expand(args, &item));
}

#[test]
fn a_job_that_parks() {
    let args = quote!(topic = "orders", key = "order_id", on_exhausted = park, park_limit = 50);
    let item = quote! {
        async fn charge(tx: &mut PgTx, job: Charge) -> JobResult { Ok(()) }
    };
    assert_snapshot("job_that_parks", job::expand(args, &item));
    let usual = job::expand(quote!(topic = "orders", key = "order_id", on_exhausted = park), &item);
    assert!(usual.to_string().contains("park (1000u32)"), "{usual}");
}

#[test]
fn a_job_of_a_message() {
    let item = quote! {
        async fn r#match(tx: &mut SqliteTx, job: Charge) -> JobResult { Ok(()) }
    };
    assert_snapshot("job_of_message", job::expand(TokenStream::new(), &item));
}

#[test]
fn a_batch_job() {
    let args = quote!(topic = "orders", key = "order_id", batch = 100, ordering = none);
    let item = quote! {
        async fn charge(tx: &mut PgTx, jobs: Vec<Charge>, State(db): State<Db>, metas: Vec<Meta>) -> JobResult {
            Ok(())
        }
    };
    assert_snapshot("batch_job", job::expand(args, &item));
}

#[test]
fn a_batch_job_of_a_message() {
    let item = quote! {
        async fn charge(tx: &mut SqliteTx, jobs: std::vec::Vec<Charge>) -> JobResult { Ok(()) }
    };
    let expansion = job::expand(quote!(batch = 2), &item);
    assert_short(&expansion, item);
    assert_snapshot("batch_job_of_message", expansion);
}

/// A list is told by its tokens, and one mistake about it does not become two.
#[test]
fn mac_02_a_list_of_payloads_and_the_option_batch_belong_together() {
    let job = |args: TokenStream, payload: TokenStream| {
        let args = quote!(topic = "orders", key = "order_id", #args);
        let item = quote!(
            async fn charge(tx: &mut PgTx, jobs: #payload) -> JobResult {}
        );
        mistakes(&job::expand(args, &item))
    };
    for batch in [quote!(batch = 2), quote!(batch = 1000), quote!(batch = 1_000)] {
        assert_eq!(job(batch.clone(), quote!((::std::vec::Vec<Vec<Charge>>))), 0, "{batch}");
        for one in [quote!(Charge), quote!(Vec), quote!(Vec<u8, Pool>), quote!([Charge; 2]), quote!(Vec::Iter<u8>)] {
            assert_eq!(job(batch.clone(), one.clone()), 1, "{batch} {one}");
        }
    }
    assert_eq!(job(quote!(), quote!(Vec<Charge>)), 1);
    for wrong in [
        quote!(batch = 0),
        quote!(batch = 1),
        quote!(batch = 1001),
        quote!(batch = 99999999999999999999),
        quote!(batch = "100"),
        quote!(batch),
        quote!(bach = 100),
        quote!(batch(100)),
        quote!(shared_tx = 5, batch = 5),
    ] {
        assert_eq!(job(wrong.clone(), quote!(Vec<Charge>)), 1, "{wrong}");
    }
}

#[test]
fn mac_02_a_job_with_mistakes_keeps_its_item_and_its_checks() {
    let args = quote!(topic = "orders/eu", key = "order_id, order_id, 9th", retires = 3);
    let item = quote! {
        fn charge(tx: &mut PgTx, job: Charge) -> JobResult { Ok(()) }
    };
    let expansion = job::expand(args, &item);
    assert_eq!(mistakes(&expansion), 5);
    assert_snapshot("job_with_mistakes", expansion);
}

#[test]
fn a_message() {
    let item = quote! {
        #[message(topic = "orders", key = "order_id, customer.id", partition_by = "order_id", event = "charged")]
        struct Charge { order_id: u64, customer: Customer }
    };
    assert_snapshot("message", message::expand(item));
}

#[test]
fn key_parts() {
    let mut expansion = key_part::expand(quote! {
        enum Op { #[key("charge")] Charge, #[key("refund")] Refund }
    });
    expansion.extend(key_part::expand(quote!(
        struct OrderId(u64);
    )));
    expansion.extend(key_part::expand(quote!(
        struct Id<'a, T: Clone>
        where
            T: 'a,
        {
            id: Cow<'a, T>,
        }
    )));
    assert_snapshot("key_parts", expansion);
}

#[test]
fn the_body_is_never_parsed() {
    let (args, _) = readme();
    let item = quote! {
        async fn charge(tx: &mut PgTx, job: Charge) -> JobResult { this is :: not + Rust ! }
    };
    assert_eq!(mistakes(&job::expand(args, &item)), 0);
}

#[test]
fn what_rustc_refuses_by_itself_is_refused_here_too() {
    let (args, _) = readme();
    for item in [
        quote!(
            unsafe extern "C" fn charge(tx: &mut PgTx, job: Charge, _: ...) -> JobResult {}
        ),
        quote!(
            async fn charge(tx: &'static mut PgTx, job: Charge) -> JobResult {}
        ),
        quote!(
            async fn charge(tx: &mut PgTx, job: Vec<impl Sized>) -> JobResult {}
        ),
        quote!(
            async fn charge(tx: &mut PgTx, job: Charge) -> impl Sized {}
        ),
        quote!(
            async fn charge(tx: &mut dyn Handle, job: Charge) -> JobResult {}
        ),
        quote!(
            async fn charge(tx: &mut PgTx, job: Charge, part: Part<'_>) -> JobResult {}
        ),
        quote!(
            async fn charge(tx: &mut PgTx, job: Charge) -> JobResult;
        ),
        quote!(
            static CHARGE: u64 = 1;
        ),
        quote!(impl Charge {}),
        quote!(),
    ] {
        let expansion = job::expand(args.clone(), &item);
        assert!(mistakes(&expansion) > 0, "{item}");
        assert!(expansion.to_string().starts_with(&item.to_string()), "{item}");
    }
}

#[test]
fn strange_arguments_are_mistakes_and_nothing_worse() {
    let (_, item) = readme();
    let long = "x".repeat(100_000);
    for args in [
        quote!(,),
        quote!(topic),
        quote!(topic =),
        quote!(topic == "a", key = "b"),
        quote!(topic = b"orders", key = "order_id"),
        quote!(topic = "orders" "more", key = "order_id"),
        quote!(topic = concat!("a", "b"), key = "order_id"),
        quote!(topic("orders"), key = "order_id"),
        quote!(r#topic = "orders", key = "order_id"),
        quote!(topic = "orders", key = "order_id", retries = 5u32),
        quote!(topic = "orders", key = "order_id", retries = 4294967296),
        quote!(topic = "orders", key = "order_id", retries = 0.5),
        quote!(topic = "orders", key = "order_id", on_exhausted = skip),
        quote!(topic = "orders", key = "order_id", park_limit = 5),
        quote!(topic = "orders", key = "order_id", on_exhausted = stop, park_limit = 5),
        quote!(topic = "orders", key = "order_id", on_exhausted = park, park_limit = 0),
        quote!(topic = "orders", key = "order_id", on_exhausted = park, ordering = none),
        quote!(topic = "orders", key = "order_id", ordering = "key"),
        quote!(topic = "orders", key = "order_id", ordering = Key),
        quote!(topic = "orders", key = "order_id", shared_tx = 1),
        quote!(topic = "orders", key = "order_id", shared_tx = -2),
        quote!(topic = #long, key = "order_id"),
        quote!(topic = "orders", key = "order_id", name = #long),
        quote!(topic = "заказы", key = "order_id"),
        quote!(topic = "orders", key = "order_id\u{0}"),
    ] {
        assert!(mistakes(&job::expand(args.clone(), &item)) > 0, "{args}");
    }
}
