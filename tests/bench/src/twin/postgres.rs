//! On PostgreSQL: messages go by their key to tasks, each with a connection of its own. Frozen.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rdkafka::consumer::StreamConsumer;
use rdkafka::message::{Message, OwnedMessage};
use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use super::{JOB, decode};
use crate::Failure;
use crate::options::Measured;
use crate::progress::Progress;

const QUEUE: usize = 128;

const CLAIM: &str = "INSERT INTO idempotent_jobs.processed \
    (job, key, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, key) DO NOTHING";

const EFFECT: &str = "INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)";

pub async fn consume(consumer: &StreamConsumer, measured: &Measured, progress: &Arc<Progress>) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    let mut queues = Vec::new();
    for _ in 0..measured.connections {
        let conn = PgConnection::connect(&measured.database).await?;
        let (queue, messages) = channel(QUEUE);
        tasks.spawn(work(conn, messages, measured.group.clone(), Arc::clone(progress)));
        queues.push(queue);
    }
    for _ in 0..measured.messages {
        let message = consumer.recv().await?.detach();
        progress.begin();
        // A queue is closed only when its task failed, which the end of the tasks tells.
        if queue_of(&message, &queues).send(message).await.is_err() {
            break;
        }
    }
    drop(queues);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

fn queue_of<'a>(message: &OwnedMessage, queues: &'a [Sender<OwnedMessage>]) -> &'a Sender<OwnedMessage> {
    let mut hasher = DefaultHasher::new();
    message.key().hash(&mut hasher);
    &queues[usize::try_from(hasher.finish() % queues.len() as u64).expect("below a usize")]
}

async fn work(
    mut conn: PgConnection,
    mut messages: Receiver<OwnedMessage>,
    group: String,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    while let Some(message) = messages.recv().await {
        process(&mut conn, &message, &group).await?;
        progress.done(1);
    }
    Ok(())
}

async fn process(conn: &mut PgConnection, message: &OwnedMessage, group: &str) -> Result<(), Failure> {
    let decoded = decode(message)?;
    let mut tx = conn.begin().await?;
    let claimed = sqlx::query(CLAIM)
        .bind(JOB)
        .bind(&decoded.key)
        .bind(&decoded.fingerprint[..])
        .bind("twin")
        .bind(group)
        .bind(message.topic())
        .bind(message.partition())
        .bind(message.offset())
        .execute(&mut *tx)
        .await?;
    if claimed.rows_affected() == 1 {
        sqlx::query(EFFECT).bind(decoded.charge.order_id).bind(decoded.charge.amount_cents).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}
