//! The library's extractors and the user's own.

use idempotent_jobs::Context;
use idempotent_jobs::prelude::*;

#[derive(Clone)]
struct Mailer;

struct Tenant(String);

impl Extract for Tenant {
    fn extract(context: &Context) -> Result<Self, JobError> {
        let meta = Meta::extract(context)?;
        Ok(Self(meta.topic))
    }
}

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

#[idempotent_job(topic = "orders", key = "order_id")]
async fn charge(
    _tx: &mut PgTx,
    _job: Charge,
    State(_mailer): State<Mailer>,
    _headers: Headers,
    meta: Meta,
    tenant: Tenant,
) -> Result<(), JobError> {
    if tenant.0 != meta.topic {
        return Err("another tenant's".into());
    }
    Ok(())
}
