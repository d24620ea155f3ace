/// Charges.
#[cfg(unix)]
#[cfg_attr(test, cfg(not(miri)), inline)]
#[must_use]
pub(crate) async fn charge(
    tx: &mut PgTx,
    Charge { order_id, .. }: Charge,
    State(db): State<Db>,
    meta: Meta,
) -> JobResult {
    Ok(())
}
#[cfg(unix)]
#[cfg_attr(test, cfg(not(miri)))]
const _: () = {
    use ::idempotent_jobs::__private as __p;
    fn __entry<'__a>(
        __tx: &'__a mut PgTx,
        __job: Charge,
        __cx: &'__a __p::Context,
    ) -> __p::Running<'__a> {
        __p::boxed(async move {
            <JobResult as __p::Returned>::result(
                charge(
                        __tx,
                        __job,
                        <State<Db> as __p::Extract>::extract(__cx)?,
                        <Meta as __p::Extract>::extract(__cx)?,
                    )
                    .await,
            )
        })
    }
    fn __register() -> __p::Registered {
        let __job = __p::Declaration::new("orders.charge", "orders", __entry)
            .key(__p::field("order_id", |__job: &Charge| &__job.order_id))
            .key(__p::field("customer.id", |__job: &Charge| &__job.customer.id))
            .key(__p::Part::header("header(ce_id)", "ce_id"))
            .key(__p::field("type", |__job: &Charge| &__job.r#type))
            .key(__p::field("pair.0", |__job: &Charge| &__job.pair.0))
            .event("charged")
            .compare(&["amount_cents", "customer.id"])
            .retries(3u32)
            .backoff(50u64, 60000u64)
            .timeout(10000u64)
            .isolation(__p::Isolation::Serializable)
            .on_exhausted(__p::Fate::Stop)
            .on_conflict(__p::Fate::Stop)
            .on_tombstone(__p::Fate::Skip)
            .ordering(__p::Ordering::Partition)
            .shared_tx(50usize)
            .argument(<State<Db> as __p::Extract>::check)
            .argument(<Meta as __p::Extract>::check);
        __p::register::<PgTx, Charge>()(__job)
    }
    __p::inventory::submit! {
        __p::Registration(__register)
    }
};
