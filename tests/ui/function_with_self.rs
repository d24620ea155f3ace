use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

struct Shop;

impl Shop {
    #[idempotent_job(topic = "orders", key = "order_id")]
    async fn charge(&self, _tx: &mut PgTx, _job: Charge) -> JobResult {
        Ok(())
    }
}

fn main() {}
