//! Raw identifiers, keywords as fields, tuples, nesting, patterns as arguments.

use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "events", key = "type, r#fn.id, pair.1.0, größe", partition_by = "type")]
struct Event {
    r#type: String,
    r#fn: Box<Inner>,
    pair: (u64, (bool, char)),
    größe: i64,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Inner {
    id: u64,
}

#[idempotent_job(topic = "events", key = "type, r#fn.id, pair.1.0, header( ce-id )")]
async fn r#match(_: &mut PgTx, Event { r#type, .. }: Event, State(limit): State<u32>) -> JobResult {
    let _ = (r#type, limit);
    Ok(())
}

#[derive(serde::Deserialize)]
struct Pair(u64, Inner);

#[idempotent_job(topic = "pairs", key = "0, 1.id")]
async fn pair(_tx: &mut SqliteTx, mut job: Pair) -> JobResult {
    job.0 += job.1.id;
    assert_ne!(job.0, 0);
    Ok(())
}
