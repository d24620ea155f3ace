async fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
    Ok(())
}
const _: () = {
    use ::idempotent_jobs::__private as __p;
    fn __entry<'__a>(
        __tx: &'__a mut PgTx,
        __job: Charge,
        __cx: &'__a __p::Context,
    ) -> __p::Running<'__a> {
        __p::boxed(async move {
            <JobResult as __p::Returned>::result(charge(__tx, __job).await)
        })
    }
    fn __register() -> __p::Registered {
        let __job = __p::Declaration::new("charge", "orders", __entry)
            .key(__p::field("order_id", |__job: &Charge| &__job.order_id))
            .park(50u32);
        __p::register::<PgTx, Charge>()(__job)
    }
    __p::inventory::submit! {
        __p::Registration(__register)
    }
};
