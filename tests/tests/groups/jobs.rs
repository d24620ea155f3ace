//! The jobs of these tests, each for both databases: one for every way to be run with others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, SqliteTx};
use serde::{Deserialize, Serialize};
use sqlx::Executor;
use tests::PATIENCE;
use tests::database::{effect_pg, effect_sqlite};
use tests::events::{Events, Seen};

/// A message's payload: what its handler does on its first calls. Then it is a good one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Work {
    pub id: i64,
    pub does: String,
    /// On how many calls, those in company included.
    pub times: usize,
    /// Content that belongs to no key.
    pub note: String,
}

/// Told by a message.
#[derive(Debug, Serialize, JobMessage)]
#[message(topic = "told", key = "id", partition_by = "id")]
pub struct Told {
    pub id: String,
}

/// Holds the only worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Gate {
    pub id: i64,
}

/// One call of a handler, with what it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub job: &'static str,
    pub ids: Vec<i64>,
    pub attempts: Vec<u32>,
    /// The setting that a handler makes for its own transaction, as this one found it.
    pub tenant: Option<String>,
}

/// Every call of a handler, also those whose effects were undone.
#[derive(Clone)]
pub struct Log {
    calls: Arc<Mutex<Vec<Call>>>,
    events: Arc<Events>,
}

impl Log {
    pub fn of_events(events: &Arc<Events>) -> Self {
        Self { calls: Arc::default(), events: Arc::clone(events) }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic while a call is noted").clone()
    }

    /// The calls of a job that were given this id.
    pub fn of(&self, job: &str, id: i64) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.job == job && call.ids.contains(&id)).collect()
    }

    /// Notes a call; what its misbehaving messages do.
    fn enter(&self, job: &'static str, works: &[Work], metas: &[Meta], tenant: Option<String>) -> Vec<String> {
        let ids = works.iter().map(|work| work.id).collect();
        let attempts = metas.iter().map(|meta| meta.attempt).collect();
        self.calls.lock().expect("no panic while a call is noted").push(Call { job, ids, attempts, tenant });
        let misbehaves = |work: &&Work| self.of(job, work.id).len() <= work.times;
        works.iter().filter(misbehaves).map(|work| work.does.clone()).collect()
    }
}

/// What is said of each message must be said of this one.
fn line_up(works: &[Work], metas: &[Meta], headers: &[Headers]) -> JobResult {
    let of = |(work, (meta, headers)): (&Work, (&Meta, &Headers))| {
        meta.key == format!("[{}]", work.id) && headers.get("id") == Some(work.id.to_string().as_bytes())
    };
    let same = works.len() == metas.len() && works.len() == headers.len();
    if same && works.iter().zip(metas.iter().zip(headers)).all(of) {
        Ok(())
    } else {
        Err(JobError::terminal("payloads, metas and headers do not line up"))
    }
}

const FAILING: &str = "INSERT INTO there_is_no_such_table VALUES (1)";
const SERIALIZATION: &str = "DO $$ BEGIN RAISE 'could not serialize' USING ERRCODE = '40001'; END $$";
const DEADLOCK: &str = "DO $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = '40P01'; END $$";

macro_rules! misbehaviour {
    ($name:ident, $tx:ident) => {
        async fn $name(tx: &mut $tx, does: &str) -> JobResult {
            match does {
                "fail" => return Err("the handler says no".into()),
                "terminal" => return Err(JobError::terminal("no retry can help")),
                "panic" => panic!("the handler panics"),
                "hang" => std::future::pending().await,
                "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
                "violate" => _ = (&mut *tx).execute("INSERT INTO limits VALUES (1)").await?,
                "violate_late" => _ = (&mut *tx).execute("INSERT INTO parts VALUES (99)").await?,
                "swallow" => _ = (&mut *tx).execute(FAILING).await,
                "serialization" => _ = (&mut *tx).execute(SERIALIZATION).await?,
                "deadlock" => _ = (&mut *tx).execute(DEADLOCK).await?,
                // An error that is expected, and undone where it happens.
                "undo_part" => {
                    let mut part = tx.begin().await?;
                    let refused = (&mut part).execute("INSERT INTO limits VALUES (1)").await;
                    part.rollback().await?;
                    drop(refused.expect_err("the constraint is violated"));
                }
                "drop_part" => {
                    let mut part = tx.begin().await?;
                    drop((&mut part).execute("INSERT INTO limits VALUES (1)").await.expect_err("it is violated"));
                }
                "leave_savepoint" => std::mem::forget(tx.begin().await?),
                "commit_by_handle" => _ = (&mut *tx).execute("COMMIT").await,
                "commit_round_it" => _ = tx.connection().await?.execute("COMMIT").await,
                "rollback_begin_round_it" => {
                    let connection = tx.connection().await?;
                    for statement in ["ROLLBACK", "BEGIN"] {
                        let _ = connection.execute(statement).await;
                    }
                }
                "set_local" => _ = (&mut *tx).execute("SET LOCAL app.tenant = 'mine'").await?,
                "set_config" => _ = (&mut *tx).execute("SELECT set_config('app.tenant', 'mine', true)").await?,
                // What other messages touch too.
                _ => {
                    if let Some(counter) = does.strip_prefix("touch ") {
                        let touch = sqlx::query("UPDATE counters SET touched = touched + 1 WHERE id = $1");
                        let counter: i64 = counter.parse().expect("a number");
                        touch.bind(counter).execute(&mut *tx).await?;
                    }
                    if let Some(id) = does.strip_prefix("tell ") {
                        tx.enqueue(&Told { id: id.to_owned() }).await?;
                    }
                }
            }
            Ok(())
        }
    };
}

misbehaviour!(misbehave_sqlite, SqliteTx);
misbehaviour!(misbehave_postgres, PgTx);

async fn tenant_sqlite(_: &mut SqliteTx) -> Result<Option<String>, sqlx::Error> {
    Ok(None)
}

async fn tenant_postgres(tx: &mut PgTx) -> Result<Option<String>, sqlx::Error> {
    let found: Option<String> =
        sqlx::query_scalar("SELECT current_setting('app.tenant', true)").fetch_one(&mut *tx).await?;
    Ok(found.filter(|tenant| !tenant.is_empty()))
}

/// A job that is given one message at a time, with these further options.
macro_rules! one_by_one {
    ($name:ident, $tx:ident, $effect:ident, $tenant:ident, $misbehave:ident, $($option:tt)*) => {
        #[idempotent_job(
            topic = "groups", event = "work", key = "id",
            retries = 2, backoff = "1ms..20ms", timeout = "3s", $($option)*
        )]
        async fn $name(tx: &mut $tx, work: Work, meta: Meta, headers: Headers, State(log): State<Log>) -> JobResult {
            const JOB: &str = stringify!($name);
            let tenant = $tenant(tx).await?;
            let (works, metas) = ([work], [meta]);
            let does = log.enter(JOB, &works, &metas, tenant);
            line_up(&works, &metas, &[headers])?;
            $effect(tx, JOB, works[0].id, &metas[0]).await?;
            for does in &does {
                $misbehave(tx, does).await?;
            }
            Ok(())
        }
    };
}

macro_rules! batch {
    ($name:ident, $tx:ident, $effect:ident, $tenant:ident, $misbehave:ident) => {
        #[idempotent_job(
            topic = "groups",
            event = "work",
            key = "id",
            retries = 2,
            backoff = "1ms..20ms",
            timeout = "3s",
            batch = 200
        )]
        async fn $name(
            tx: &mut $tx,
            works: Vec<Work>,
            metas: Vec<Meta>,
            headers: Vec<Headers>,
            State(log): State<Log>,
        ) -> JobResult {
            const JOB: &str = stringify!($name);
            let tenant = $tenant(tx).await?;
            let does = log.enter(JOB, &works, &metas, tenant);
            line_up(&works, &metas, &headers)?;
            for (work, meta) in works.iter().zip(&metas) {
                $effect(tx, JOB, work.id, meta).await?;
            }
            for does in &does {
                $misbehave(tx, does).await?;
            }
            Ok(())
        }
    };
}

macro_rules! gate {
    ($name:ident, $tx:ident) => {
        #[idempotent_job(topic = "groups", event = "gate", key = "id", ordering = none)]
        async fn $name(_: &mut $tx, _gate: Gate, State(log): State<Log>) -> JobResult {
            let open = tokio::task::block_in_place(|| log.events.wait_briefly(PATIENCE, Seen::is_all_accepted));
            if open { Ok(()) } else { Err(JobError::terminal("the rest was not read")) }
        }
    };
}

gate!(gate_sqlite, SqliteTx);
gate!(gate_postgres, PgTx);
one_by_one!(single_sqlite, SqliteTx, effect_sqlite, tenant_sqlite, misbehave_sqlite,);
one_by_one!(single_postgres, PgTx, effect_pg, tenant_postgres, misbehave_postgres,);
one_by_one!(shared_sqlite, SqliteTx, effect_sqlite, tenant_sqlite, misbehave_sqlite, shared_tx = 200);
one_by_one!(shared_postgres, PgTx, effect_pg, tenant_postgres, misbehave_postgres, shared_tx = 200);
one_by_one!(
    in_a_row_sqlite,
    SqliteTx,
    effect_sqlite,
    tenant_sqlite,
    misbehave_sqlite,
    shared_tx = 200,
    ordering = partition
);
one_by_one!(
    in_a_row_postgres,
    PgTx,
    effect_pg,
    tenant_postgres,
    misbehave_postgres,
    shared_tx = 200,
    ordering = partition
);
one_by_one!(
    unordered_sqlite,
    SqliteTx,
    effect_sqlite,
    tenant_sqlite,
    misbehave_sqlite,
    shared_tx = 200,
    ordering = none
);
one_by_one!(unordered_postgres, PgTx, effect_pg, tenant_postgres, misbehave_postgres, shared_tx = 200, ordering = none);
one_by_one!(
    strict_postgres,
    PgTx,
    effect_pg,
    tenant_postgres,
    misbehave_postgres,
    shared_tx = 200,
    isolation = serializable
);
batch!(batch_sqlite, SqliteTx, effect_sqlite, tenant_sqlite, misbehave_sqlite);
batch!(batch_postgres, PgTx, effect_pg, tenant_postgres, misbehave_postgres);
