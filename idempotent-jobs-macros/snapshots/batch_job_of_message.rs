async fn charge(tx: &mut SqliteTx, jobs: std::vec::Vec<Charge>) -> JobResult {
    Ok(())
}
const _: () = {
    use ::idempotent_jobs::__private as __p;
    fn __entry<'__a>(
        __tx: &'__a mut SqliteTx,
        __job: __p::Vec<Charge>,
        __cx: &'__a [__p::Context],
    ) -> __p::Running<'__a> {
        __p::boxed(async move {
            <JobResult as __p::Returned>::result(charge(__tx, __job).await)
        })
    }
    fn __register() -> __p::Registered {
        let __job = __p::Declaration::batch_of_message(
            "charge",
            __p::message::<Charge>(),
            2usize,
            __entry,
        );
        __p::register::<SqliteTx, Charge>()(__job)
    }
    __p::inventory::submit! {
        __p::Registration(__register)
    }
};
