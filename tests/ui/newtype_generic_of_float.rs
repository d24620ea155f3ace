use idempotent_jobs::prelude::*;

#[derive(serde::Deserialize, KeyPart)]
struct Id<T>(T);

#[derive(serde::Deserialize)]
struct Charge {
    part: Id<f64>,
}

#[idempotent_job(topic = "orders", key = "part")]
async fn charge(_tx: &mut PgTx, _job: Charge) -> JobResult {
    Ok(())
}

fn main() {}
