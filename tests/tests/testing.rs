//! A job called as written, with the arguments that `testing` makes.

use idempotent_jobs::prelude::*;
use idempotent_jobs::testing;
use serde::Deserialize;

#[derive(Deserialize)]
struct Charge {
    order_id: i64,
}

#[idempotent_job(topic = "orders", key = "order_id", name = "charge_under_test")]
async fn charge(tx: &mut SqliteTx, job: Charge, meta: Meta) -> JobResult {
    let statement = "INSERT INTO charged (order_id, key) VALUES ($1, $2)";
    sqlx::query(statement).bind(job.order_id).bind(meta.key).execute(&mut *tx).await?;
    Ok(())
}

async fn charged(tx: &mut SqliteTx) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM charged").fetch_one(tx).await
}

#[tokio::test]
async fn a_job_is_called_as_written_and_leaves_nothing() {
    let folder = std::env::temp_dir().join(format!("idempotent-jobs-testing-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder of its own");
    let url = format!("sqlite://{}?mode=rwc", folder.join("test.sqlite").display());

    let mut tx = testing::sqlite(&url).await.expect("a new file");
    sqlx::query("CREATE TABLE charged (order_id INTEGER, key TEXT)").execute(&mut tx).await.expect("a new table");
    charge(&mut tx, Charge { order_id: 1 }, testing::meta("orders", "[1]")).await.expect("the job succeeds");
    assert_eq!(charged(&mut tx).await.expect("the table is there"), 1);
    drop(tx);

    let mut again = testing::sqlite(&url).await.expect("the same file");
    assert!(charged(&mut again).await.is_err(), "the table went with its transaction");
    drop(again);
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
