//! The jobs of these tests, each for both databases: one message a transaction, and many.

use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, SqliteTx};
use serde::Deserialize;
use sqlx::Executor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tests::database::{effect_pg, effect_sqlite};
use tests::world::Topic;
use tokio::sync::Notify;

pub const DYING: Topic = ("dying", 4);

/// Whether the handlers are mended, and what the late one waits for.
#[derive(Clone, Default)]
pub struct Mended {
    pub is: Arc<AtomicBool>,
    pub late: Arc<Notify>,
}

#[derive(Debug, Deserialize)]
pub struct Work {
    pub id: i64,
    #[serde(default)]
    pub does: String,
}

macro_rules! job {
    ($name:ident, $tx:ident, $effect:ident $(, $option:tt = $value:tt)*) => {
        #[idempotent_job(
            topic = "dying", key = "id", event = "work", retries = 1, backoff = "1ms..20ms", timeout = "2s" $(, $option = $value)*
        )]
        async fn $name(tx: &mut $tx, work: Work, meta: Meta, State(mended): State<Mended>) -> JobResult {
            $effect(tx, stringify!($name), work.id, &meta).await?;
            if mended.is.load(Ordering::SeqCst) {
                return Ok(());
            }
            match work.does.as_str() {
                "fail" => Err("the handler says no".into()),
                "terminal" => Err(JobError::terminal("no retry can help")),
                "late" => {
                    mended.late.notified().await;
                    Err(JobError::terminal("no retry can help"))
                }
                "panic" => panic!("the handler panics"),
                "hang" => std::future::pending().await,
                "end" => {
                    let _ = (&mut *tx).execute("COMMIT").await;
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    };
}

job!(single_sqlite, SqliteTx, effect_sqlite);
job!(single_postgres, PgTx, effect_pg);
job!(shared_sqlite, SqliteTx, effect_sqlite, shared_tx = 50);
job!(shared_postgres, PgTx, effect_pg, shared_tx = 50);
