//! The job of the stream with poison: the message says what is bad about it.

use idempotent_jobs::PgTx;
use idempotent_jobs::prelude::*;
use serde::Deserialize;
use tests::database::effect_pg;
use tests::poison::Bad;

#[derive(Debug, Deserialize)]
struct Drop {
    id: i64,
    #[serde(default)]
    does: Option<Bad>,
}

#[idempotent_job(topic = "poisoned", key = "id", retries = 1, backoff = "1ms..20ms", timeout = "1s")]
async fn poisoned_postgres(tx: &mut PgTx, drop: Drop, meta: Meta) -> JobResult {
    effect_pg(tx, "poisoned_postgres", drop.id, &meta).await?;
    match drop.does {
        Some(Bad::Terminal) => Err(JobError::terminal("no retry can help")),
        Some(Bad::Panic) => panic!("the handler panics"),
        Some(Bad::Hang) => std::future::pending().await,
        Some(Bad::Abort) => std::process::abort(),
        _ => Ok(()),
    }
}
