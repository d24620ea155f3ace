fn charge(tx: &mut PgTx, job: Charge) -> JobResult {
    Ok(())
}
::core::compile_error! {
    "unknown option `retires`; the options of `#[idempotent_job]` are `topic`, `key`, `name`, `event`, `compare`, `retries`, `backoff`, `timeout`, `isolation`, `on_exhausted`, `park_limit`, `on_conflict`, `on_tombstone`, `ordering`, `shared_tx` and `batch`"
}
::core::compile_error! {
    "`orders/eu` is not a legal topic because of '/': Kafka takes `A-Z a-z 0-9 . _ -`"
}
::core::compile_error! {
    "`order_id` stands in `key` more than once: keep one"
}
::core::compile_error! {
    "`9th` is not a field's name: write `order_id`, `customer.id` or `header(ce_id)`"
}
::core::compile_error! {
    "a job is asynchronous: write `async fn`"
}
const _: () = {
    use ::idempotent_jobs::__private as __p;
    fn __register() -> __p::Registered {
        let __job = __p::Declaration::new("charge", "", __p::no_entry)
            .key(__p::field("order_id", |__job: &Charge| &__job.order_id));
        __p::register::<PgTx, Charge>()(__job)
    }
    __p::inventory::submit! {
        __p::Registration(__register)
    }
};
