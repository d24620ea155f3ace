const _: () = {
    use ::idempotent_jobs::__private as __p;
    #[automatically_derived]
    impl __p::JobMessage for Charge {
        const TOPIC: &'static str = "orders";
        const EVENT: __p::Option<&'static str> = __p::Option::Some("charged");
        fn key_parts() -> __p::Vec<__p::Part<Self>> {
            __p::parts([
                __p::field("order_id", |__job: &Self| &__job.order_id),
                __p::field("customer.id", |__job: &Self| &__job.customer.id),
            ])
        }
        fn partition_by(&self) -> __p::Option<__p::KeyValue<'_>> {
            __p::Option::Some(__p::KeyPart::value(&self.order_id))
        }
    }
};
