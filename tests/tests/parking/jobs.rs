//! The jobs of these tests, each for both databases.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, SqliteTx};
use serde::{Deserialize, Serialize};
use tests::database::{effect_pg, effect_sqlite};
use tests::world::Topic;

pub const PARKING: Topic = ("parking", 2);

/// How far the handlers are mended.
#[derive(Clone, Default)]
pub struct Mended(pub Arc<AtomicI64>);

impl Mended {
    pub fn to(&self, level: i64) {
        self.0.store(level, Ordering::SeqCst);
    }

    fn takes(&self, work: &Work, meta: &Meta) -> JobResult {
        if work.note == "flaky" && meta.attempt == 1 {
            return Err("not at first".into());
        }
        if self.0.load(Ordering::SeqCst) < work.until { Err("the handler says no".into()) } else { Ok(()) }
    }
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Work {
    pub id: i64,
    /// It fails until the handlers are mended so far.
    #[serde(default)]
    pub until: i64,
    #[serde(default)]
    pub note: String,
}

impl Work {
    /// So that two who run the same messages are seldom at the same one.
    async fn dawdle(&self) {
        match &*self.note {
            "dawdle" => tokio::time::sleep(Duration::from_micros(rand::random_range(0..4_000))).await,
            "slow" => tokio::time::sleep(Duration::from_millis(500)).await,
            _ => {}
        }
    }
}

macro_rules! job {
    ($name:ident, $tx:ident, $effect:ident, $topic:literal $(, $option:tt = $value:tt)*) => {
        #[idempotent_job(
            topic = $topic, key = "id", retries = 1, backoff = "1ms..5ms", timeout = "5s" $(, $option = $value)*
        )]
        async fn $name(tx: &mut $tx, work: Work, meta: Meta, State(mended): State<Mended>) -> JobResult {
            work.dawdle().await;
            $effect(tx, stringify!($name), work.id, &meta).await?;
            mended.takes(&work, &meta)
        }
    };
}

macro_rules! batch {
    ($name:ident, $tx:ident, $effect:ident) => {
        #[idempotent_job(
            topic = "parking", key = "id", retries = 1, backoff = "1ms..5ms", timeout = "5s", on_exhausted = park, batch = 50
        )]
        async fn $name(tx: &mut $tx, works: Vec<Work>, metas: Vec<Meta>, State(mended): State<Mended>) -> JobResult {
            for (work, meta) in works.iter().zip(&metas) {
                work.dawdle().await;
                $effect(tx, stringify!($name), work.id, meta).await?;
                mended.takes(work, meta)?;
            }
            Ok(())
        }
    };
}

job!(single_sqlite, SqliteTx, effect_sqlite, "parking", on_exhausted = park);
job!(single_postgres, PgTx, effect_pg, "parking", on_exhausted = park);
job!(shared_sqlite, SqliteTx, effect_sqlite, "parking", on_exhausted = park, shared_tx = 50);
job!(shared_postgres, PgTx, effect_pg, "parking", on_exhausted = park, shared_tx = 50);
batch!(batch_sqlite, SqliteTx, effect_sqlite);
batch!(batch_postgres, PgTx, effect_pg);
job!(partition_sqlite, SqliteTx, effect_sqlite, "parking", on_exhausted = park, ordering = partition);
job!(partition_postgres, PgTx, effect_pg, "parking", on_exhausted = park, ordering = partition);
job!(bounded_sqlite, SqliteTx, effect_sqlite, "parking", on_exhausted = park, park_limit = 3);
job!(bounded_postgres, PgTx, effect_pg, "parking", on_exhausted = park, park_limit = 3);
job!(beside_sqlite, SqliteTx, effect_sqlite, "parking");
job!(beside_postgres, PgTx, effect_pg, "parking");
