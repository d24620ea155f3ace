//! The claim for callers without Kafka: an HTTP request with a key of its own, a cron job.

mod error;
mod key;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::OnceError;
pub use self::key::OnceKey;

use crate::codec;
use crate::fingerprint::{Fingerprint, Scheme};
use crate::store::{Asked, Given, Part, Transacted};

/// The answer of an effect that happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Once<T> {
    /// The effect happened just now. It is stored when the caller commits.
    Ran(T),
    /// The effect had happened before, and this is the answer it gave.
    Before(T),
}

impl<T> Once<T> {
    /// The answer, the same whether the effect happened now or before.
    pub fn into_answer(self) -> T {
        match self {
            Self::Ran(answer) | Self::Before(answer) => answer,
        }
    }

    /// Whether the effect happened just now.
    pub fn ran(&self) -> bool {
        matches!(self, Self::Ran(_))
    }
}

/// Runs `effect` at most once for a key, and gives its answer every time.
///
/// It is the claim of a job for callers without Kafka: an HTTP handler whose clients send an
/// `Idempotency-Key`, a cron job keyed by its date. In the caller's own transaction it claims
/// `key` within `scope`, runs `effect` and stores its answer; the caller commits. Who comes with the same
/// key and the same request gets the stored answer. Who comes while another transaction holds the key waits for
/// it, for as long as the session's `lock_timeout` (SQLite: busy timeout) allows, and then gets its answer, or
/// runs if it was rolled back.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # mod example {
/// use idempotent_jobs::{OnceError, once};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)] struct Placed { order_id: i64 }
/// # enum Refused { KeyOfAnotherRequest, TryAgain, Failed }
///
/// async fn place(pool: &sqlx::PgPool, customer: i64, key: &str, body: &serde_json::Value) -> Result<Placed, Refused> {
///     let mut tx = pool.begin().await.map_err(|_| Refused::TryAgain)?;
///     let placed = once(&mut *tx, "POST /orders", (customer, key), body, async |tx| {
///         let order_id = sqlx::query_scalar("INSERT INTO orders (customer) VALUES ($1) RETURNING order_id")
///             .bind(customer)
///             .fetch_one(&mut *tx)
///             .await?;
///         Ok::<_, sqlx::Error>(Placed { order_id })
///     });
///     let placed = placed.await.map_err(|error| match error {
///         OnceError::Conflict { .. } => Refused::KeyOfAnotherRequest,
///         OnceError::Store { transient: true, .. } => Refused::TryAgain,
///         _ => Refused::Failed,
///     })?;
///     tx.commit().await.map_err(|_| Refused::TryAgain)?;
///     Ok(placed.into_answer())
/// }
/// # }
/// ```
///
/// # The key
/// One value or a tuple of values that can be [key parts](crate::KeyPart). Who chooses it decides what is the
/// same, so what other people must not share belongs into it: with `(customer, key)` no customer gets another's answer
/// by sending the same key. `scope` names the operation; keys of different scopes never meet.
///
/// # The request
/// A key that comes again with another request is a [`Conflict`](OnceError::Conflict), never the answer to
/// something else. Compared is the JSON of `request`, in canonical form: the order of members does not matter, the
/// spelling of numbers does. Pass the body as it came (`serde_json::Value`) rather than a decoded type: a
/// deploy that adds a field to the type would make conflicts of requests sent again.
///
/// # The transaction
/// `tx` is `&mut *tx` of an sqlx transaction, or the handle of a job. Claim, effect and answer are one part of it: an effect
/// that fails is undone with its claim, and the transaction can go on. Nothing is stored until the caller has
/// seen `commit` return `Ok`; an answer given out before may be lost. The effect must not end the
/// transaction.
///
/// Dropped before its end, as by a timeout, nothing of it is stored: drop the transaction too. Should
/// the caller commit all the same, PostgreSQL refuses the whole transaction, and SQLite commits the rest of it.
///
/// On SQLite begin with `BEGIN IMMEDIATE` (`pool.begin_with(…)`), since a transaction that has read cannot
/// always go on to write. On PostgreSQL under `REPEATABLE READ` and above, a key that another transaction has committed
/// meanwhile is a transient error: begin again, and get the answer.
///
/// # The tables
/// A worker's first start makes them, and so does [`outbox::migrate`](crate::outbox::migrate). The effect can happen
/// again once its row is deleted, which is up to you, by age:
///
/// ```sql
/// DELETE FROM idempotent_jobs.answers WHERE answered_at < now() - interval '30 days'; -- PostgreSQL
/// DELETE FROM idempotent_jobs_answers                                                 -- SQLite
///  WHERE answered_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-30 days');
/// ```
///
/// # Errors
/// [`OnceError`] says what each means; none holds a key, a request or an answer. After any of them nothing of this
/// call is stored.
pub async fn once<C, R, T, E>(
    tx: &mut C,
    scope: &str,
    key: impl OnceKey,
    request: &R,
    effect: impl AsyncFnOnce(&mut C) -> Result<T, E>,
) -> Result<Once<T>, OnceError<E>>
where
    C: Transacted,
    R: Serialize + ?Sized,
    T: Serialize + DeserializeOwned,
{
    let key = key::of(scope, &key)?;
    let asked = Asked { scope, key: &key, fingerprint: fingerprint(request)? };
    let mut part = Part::open(tx).await.map_err(OnceError::store)?;
    let done = match run(&mut part, &asked, effect).await {
        Ok(done) => part.keep().await.map(|()| done).map_err(OnceError::store),
        Err(error) => Err(error),
    };
    if done.is_err() {
        part.undo().await;
    }
    done
}

/// Claim, effect, answer.
async fn run<C, T, E>(
    part: &mut Part<'_, C>,
    asked: &Asked<'_>,
    effect: impl AsyncFnOnce(&mut C) -> Result<T, E>,
) -> Result<Once<T>, OnceError<E>>
where
    C: Transacted,
    T: Serialize + DeserializeOwned,
{
    if let Some(given) = part.claim(asked).await.map_err(OnceError::store)? {
        return before(&given, asked).map(Once::Before);
    }
    let answer = effect(part.lend()).await.map_err(OnceError::Effect)?;
    let text = serde_json::to_vec(&answer).map_err(|error| OnceError::Answer(codec::complaint(&error)))?;
    part.answer(asked, &text).await.map_err(OnceError::store)?;
    Ok(Once::Ran(answer))
}

/// The answer of the first time.
fn before<T: DeserializeOwned, E>(given: &Given, asked: &Asked<'_>) -> Result<T, OnceError<E>> {
    if given.fingerprint != asked.fingerprint.0 {
        return Err(OnceError::conflict(asked));
    }
    let Some(answer) = &given.answer else { return Err(OnceError::unanswered(asked)) };
    serde_json::from_slice(answer).map_err(|error| OnceError::Answer(codec::complaint(&error)))
}

fn fingerprint<R: Serialize + ?Sized, E>(request: &R) -> Result<Fingerprint, OnceError<E>> {
    let text = serde_json::to_vec(request).map_err(|error| OnceError::Request(codec::complaint(&error)))?;
    Scheme::new(&[]).fingerprint(&text).map_err(|rejection| OnceError::Request(rejection.detail))
}
