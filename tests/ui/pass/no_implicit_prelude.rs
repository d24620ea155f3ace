//! The generated code finds everything by itself, whatever the names around it mean.
#![no_implicit_prelude]

mod nothing_in_scope {
    #[derive(::serde::Serialize, ::serde::Deserialize, ::idempotent_jobs::JobMessage)]
    #[message(topic = "orders", key = "order_id, op", partition_by = "order_id", event = "charged")]
    struct Charge {
        order_id: OrderId,
        op: Op,
    }

    #[derive(::serde::Serialize, ::serde::Deserialize, ::idempotent_jobs::KeyPart)]
    struct OrderId(u64);

    #[derive(::serde::Serialize, ::serde::Deserialize, ::idempotent_jobs::KeyPart)]
    enum Op {
        #[key("charge")]
        Charge,
        #[key("refund")]
        Refund,
    }

    #[::idempotent_jobs::idempotent_job(
        topic = "orders",
        key = "order_id, op, header(ce_id)",
        name = "orders.charge",
        event = "charged",
        compare = "order_id",
        retries = 3,
        backoff = "50ms..1m",
        timeout = "10s",
        isolation = serializable,
    )]
    async fn charge(
        tx: &mut ::idempotent_jobs::PgTx,
        job: Charge,
        meta: ::idempotent_jobs::Meta,
    ) -> ::idempotent_jobs::JobResult {
        let _ = (tx, job, meta);
        ::core::result::Result::Ok(())
    }

    #[::idempotent_jobs::idempotent_job(batch = 10, ordering = none)]
    async fn many(
        tx: &mut ::idempotent_jobs::PgTx,
        jobs: ::std::vec::Vec<Charge>,
        metas: ::std::vec::Vec<::idempotent_jobs::Meta>,
    ) -> ::idempotent_jobs::JobResult {
        let _ = (tx, jobs, metas);
        ::core::result::Result::Ok(())
    }

    #[::idempotent_jobs::idempotent_job(shared_tx = 50)]
    async fn audit(tx: &mut ::idempotent_jobs::SqliteTx, job: Charge) -> ::idempotent_jobs::JobResult {
        let _ = (tx, job);
        ::core::result::Result::Ok(())
    }
}
