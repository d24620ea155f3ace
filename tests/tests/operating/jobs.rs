//! A job that fails until it is mended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotent_jobs::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tests::broker::Wire;
use tests::database::{effect_pg, effect_sqlite};
use tests::world::Topic;

pub const OPERATED: Topic = ("operated", 2);

/// Whether the handlers are mended.
#[derive(Clone, Default)]
pub struct Mended(pub Arc<AtomicBool>);

#[derive(Debug, Serialize, Deserialize, JobMessage)]
#[message(topic = "operated", key = "id", partition_by = "id")]
pub struct Work {
    pub id: i64,
    #[serde(default)]
    pub fails: bool,
    /// Whether the job tells of it.
    #[serde(default)]
    pub tells: bool,
    /// Nobody's business.
    #[serde(default)]
    pub card: String,
}

/// What the job tells.
#[derive(Debug, Serialize, Deserialize, JobMessage)]
#[message(topic = "operated-told", key = "id", partition_by = "id")]
pub struct Told {
    pub id: i64,
}

pub const TOLD: Topic = ("operated-told", 1);

macro_rules! job {
    ($name:ident, $tx:ident, $effect:ident) => {
        #[idempotent_job(topic = "operated", key = "id", retries = 0)]
        async fn $name(tx: &mut $tx, work: Work, meta: Meta, State(mended): State<Mended>) -> JobResult {
            $effect(tx, stringify!($name), work.id, &meta).await?;
            if work.fails && !mended.0.load(Ordering::SeqCst) {
                return Err(JobError::terminal("the account is unknown\x1b[2J"));
            }
            if work.tells {
                tx.enqueue(&Told { id: work.id }).await?;
            }
            Ok(())
        }
    };
}

/// The same, whose later messages wait behind one that died.
macro_rules! lined {
    ($name:ident, $tx:ident, $effect:ident) => {
        #[idempotent_job(topic = "operated", key = "id", retries = 0, on_exhausted = park, park_limit = 2)]
        async fn $name(tx: &mut $tx, work: Work, meta: Meta, State(mended): State<Mended>) -> JobResult {
            $effect(tx, stringify!($name), work.id, &meta).await?;
            if work.fails && !mended.0.load(Ordering::SeqCst) {
                return Err("the handler says no".into());
            }
            Ok(())
        }
    };
}

lined!(lined_sqlite, SqliteTx, effect_sqlite);
lined!(lined_postgres, PgTx, effect_pg);
job!(operated_sqlite, SqliteTx, effect_sqlite);
job!(operated_postgres, PgTx, effect_pg);

/// A message of that id, which fails or not; `card` is what nobody is to see.
pub fn work(id: i64, fails: bool) -> Wire {
    Wire {
        partition: i32::try_from(id % 2).expect("small"),
        key: Some(id.to_string().into_bytes()),
        payload: Some(json!({ "id": id, "fails": fails, "card": CARD }).to_string().into_bytes()),
        headers: vec![("tenant".into(), TENANT.as_bytes().to_vec())],
    }
}

/// In each payload.
pub const CARD: &str = "4111-1111";
/// In each header.
pub const TENANT: &str = "acme-corp";
