//! One job for each database and topic; the message says what its handler does.

use std::env;
use std::error::Error;
use std::time::Duration;

use idempotent_jobs::prelude::*;
use idempotent_jobs::{PgTx, SqliteTx};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sqlx::Executor;
use tests::database::{effect_pg, effect_sqlite};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Does {
    Plain,
    /// An SQL error that is not returned, between two effects.
    Swallow,
    /// A statement that ends the transaction, by the handle.
    ByHandle(Ending),
    /// The same by the bare connection, and the error swallowed.
    RoundIt(Ending),
    /// A COMMIT by the bare connection, and the process ends before anything else is done.
    CommitAndDie,
    /// A setting that is good until the transaction ends.
    SetLocal,
    /// Works for so many milliseconds.
    Slow(u64),
    /// An error that no retry can mend.
    Terminal,
    /// A payload that cannot be read.
    Unreadable,
    /// An error, in every attempt.
    Fail,
    /// Not before so many milliseconds have passed, whenever it is asked.
    Snooze(u64),
    /// The end of the process.
    Abort,
    Overflow,
    Exhaust,
    /// The same, while the payload is read.
    AbortReader,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Commit,
    Rollback,
    RollbackBegin,
}

#[derive(Debug, Serialize, Deserialize)]
struct Work {
    id: i64,
    #[serde(deserialize_with = "readable")]
    does: Does,
}

/// With `CHILD_GOOD` every payload can be read.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Does, D::Error> {
    match Does::deserialize(deserializer)? {
        Does::Unreadable if env::var_os("CHILD_GOOD").is_none() => Err(D::Error::custom("not by this version")),
        Does::AbortReader if env::var_os("CHILD_GOOD").is_none() => std::process::abort(),
        does => Ok(does),
    }
}

impl Ending {
    fn statements(self) -> &'static [&'static str] {
        match self {
            Self::Commit => &["COMMIT"],
            Self::Rollback => &["ROLLBACK"],
            Self::RollbackBegin => &["ROLLBACK", "BEGIN"],
        }
    }
}

/// With `CHILD_GOOD` every handler does what a good one does.
fn asked(work: &Work) -> Does {
    if env::var_os("CHILD_GOOD").is_some() { Does::Plain } else { work.does }
}

const FAILING: &str = "INSERT INTO there_is_no_such_table VALUES (1)";

/// The same handler for each handle type: only the type's name and its effect differ.
macro_rules! job {
    ($name:ident, $topic:literal, $tx:ident, $effect:ident, $($option:tt)*) => {
        #[idempotent_job(topic = $topic, key = "id", retries = 2, backoff = "10ms..50ms", $($option)*)]
        async fn $name(tx: &mut $tx, work: Work, meta: Meta) -> JobResult {
            const JOB: &str = stringify!($name);
            match asked(&work) {
                Does::Plain | Does::Unreadable | Does::AbortReader => {}
                Does::Fail => {
                    println!("attempt {} of {}", meta.attempt, work.id);
                    return Err("the handler says no".into());
                }
                Does::Snooze(millis) => {
                    println!("snoozes {}", work.id);
                    return Err(JobError::snooze(Duration::from_millis(millis)));
                }
                Does::Abort => {
                    $effect(tx, JOB, work.id, &meta).await?;
                    std::process::abort();
                }
                Does::Overflow => println!("{}", overflow(work.id)),
                // More than any machine has.
                Does::Exhaust => println!("{}", Vec::<u8>::with_capacity(isize::MAX as usize).len()),
                Does::Terminal => return Err(JobError::terminal("no retry can help")),
                Does::Slow(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                Does::Swallow => {
                    let swallowed = (&mut *tx).execute(FAILING).await;
                    println!("swallowed {}", swallowed.is_err());
                }
                Does::ByHandle(ending) => {
                    $effect(tx, JOB, work.id, &meta).await?;
                    for statement in ending.statements() {
                        let refused = (&mut *tx).execute(*statement).await.map(drop);
                        println!("{statement}: {}", refused.map_or_else(told, |()| "done".to_owned()));
                    }
                    return Ok(());
                }
                Does::RoundIt(ending) => {
                    $effect(tx, JOB, work.id, &meta).await?;
                    let connection = tx.connection().await?;
                    for statement in ending.statements() {
                        let result = connection.execute(*statement).await.map(drop);
                        println!("{statement} round it: {}", result.map_or_else(told, |()| "done".to_owned()));
                    }
                    return Ok(());
                }
                Does::CommitAndDie => {
                    $effect(tx, JOB, work.id, &meta).await?;
                    let result = tx.connection().await?.execute("COMMIT").await.map(drop);
                    println!("COMMIT round it: {}", result.map_or_else(told, |()| "done".to_owned()));
                    std::process::abort();
                }
                Does::SetLocal => _ = (&mut *tx).execute("SET LOCAL app.tenant = 'mine'").await?,
            }
            Ok($effect(tx, JOB, work.id, &meta).await?)
        }
    };
}

#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn overflow(depth: i64) -> i64 {
    let room = std::hint::black_box([depth; 128]);
    room[0] + overflow(room[1] + 1)
}

fn told(error: impl Error) -> String {
    format!("refused: {error}")
}

job!(crash_sqlite, "crash", SqliteTx, effect_sqlite,);
job!(crash_postgres, "crash", PgTx, effect_pg,);
job!(flow_sqlite, "flow", SqliteTx, effect_sqlite,);
job!(flow_postgres, "flow", PgTx, effect_pg,);
job!(parking_sqlite, "parking", SqliteTx, effect_sqlite, on_exhausted = park);
job!(parking_postgres, "parking", PgTx, effect_pg, on_exhausted = park);
job!(shared_postgres, "crash", PgTx, effect_pg, shared_tx = 200);
job!(shared_sqlite, "crash", SqliteTx, effect_sqlite, shared_tx = 200);
