const _: () = {
    use ::idempotent_jobs::__private as __p;
    #[automatically_derived]
    impl __p::KeyPart for Op {
        const KIND: &'static str = "text";
        fn value(&self) -> __p::KeyValue<'_> {
            __p::text(
                match self {
                    Self::Charge => "charge",
                    Self::Refund => "refund",
                },
            )
        }
    }
};
const _: () = {
    use ::idempotent_jobs::__private as __p;
    #[automatically_derived]
    impl __p::KeyPart for OrderId {
        const KIND: &'static str = <u64 as __p::KeyPart>::KIND;
        fn value(&self) -> __p::KeyValue<'_> {
            <u64 as __p::KeyPart>::value(&self.0)
        }
    }
};
const _: () = {
    use ::idempotent_jobs::__private as __p;
    #[automatically_derived]
    impl<'a, T: Clone> __p::KeyPart for Id<'a, T>
    where
        T: 'a,
        Cow<'a, T>: __p::KeyPart,
    {
        const KIND: &'static str = <Cow<'a, T> as __p::KeyPart>::KIND;
        fn value(&self) -> __p::KeyValue<'_> {
            <Cow<'a, T> as __p::KeyPart>::value(&self.id)
        }
    }
};
