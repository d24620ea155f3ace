//! The function stays what it is: called from code, in a module, in a body, from a macro, twice a job.

use idempotent_jobs::prelude::*;

mod jobs {
    use idempotent_jobs::prelude::*;

    #[derive(serde::Deserialize)]
    pub struct Charge {
        pub order_id: u64,
    }

    #[idempotent_job(topic = "orders", key = "order_id")]
    pub async fn charge(_tx: &mut PgTx, job: Charge) -> JobResult {
        if job.order_id == 0 { Err("no order".into()) } else { Ok(()) }
    }
}

macro_rules! declare {
    ($name:ident, $topic:literal, $key:expr, $handle:ty, $payload:ty) => {
        #[idempotent_job(topic = $topic, key = $key)]
        async fn $name(_tx: &mut $handle, _job: $payload) -> JobResult {
            Ok(())
        }
    };
}

declare!(declared, "orders", "order_id", SqliteTx, jobs::Charge);

#[idempotent_job(topic = "orders", key = "order_id", name = "first")]
#[idempotent_job(topic = "payments", key = "header(ce_id)", name = "second")]
#[inline]
async fn twice(_tx: &mut PgTx, _job: jobs::Charge) -> JobResult {
    Ok(())
}

async fn by_hand(tx: &mut PgTx, job: jobs::Charge) -> JobResult {
    jobs::charge(tx, job).await
}

fn body() {
    let _ = by_hand;

    #[derive(serde::Deserialize)]
    struct Local {
        id: u64,
    }

    #[idempotent_job(topic = "local", key = "id")]
    async fn local(_tx: &mut PgTx, _job: Local) -> JobResult {
        Ok(())
    }
}

#[test]
fn functions_are_still_there() {
    body();
}
