use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct Charge {
    order_id: u64,
}

async fn wait() {}

#[idempotent_job(topic = "orders", key = "order_id")]
async fn charge(_tx: &mut PgTx, job: Charge) -> JobResult {
    let local = std::rc::Rc::new(job.order_id);
    wait().await;
    drop(local);
    Ok(())
}

fn main() {}
