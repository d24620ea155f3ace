async fn charge(
    tx: &mut PgTx,
    jobs: Vec<Charge>,
    State(db): State<Db>,
    metas: Vec<Meta>,
) -> JobResult {
    Ok(())
}
const _: () = {
    use ::idempotent_jobs::__private as __p;
    fn __entry<'__a>(
        __tx: &'__a mut PgTx,
        __job: __p::Vec<Charge>,
        __cx: &'__a [__p::Context],
    ) -> __p::Running<'__a> {
        __p::boxed(async move {
            <JobResult as __p::Returned>::result(
                charge(
                        __tx,
                        __job,
                        <State<Db> as __p::ExtractBatch>::extract_batch(__cx)?,
                        <Vec<Meta> as __p::ExtractBatch>::extract_batch(__cx)?,
                    )
                    .await,
            )
        })
    }
    fn __register() -> __p::Registered {
        let __job = __p::Declaration::batch("charge", "orders", 100usize, __entry)
            .key(__p::field("order_id", |__job: &Charge| &__job.order_id))
            .ordering(__p::Ordering::None)
            .argument(<State<Db> as __p::ExtractBatch>::check)
            .argument(<Vec<Meta> as __p::ExtractBatch>::check);
        __p::register::<PgTx, Charge>()(__job)
    }
    __p::inventory::submit! {
        __p::Registration(__register)
    }
};
