//! Handles and savepoints as executors of sqlx, with every statement checked on its way.

use std::future::Future;
use std::task::Poll;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::future::{self, FutureExt};
use futures_util::stream::{self, StreamExt};
use sqlx::{Database, Either, Error, Execute, Executor, SqlStr};
use sqlx_core::describe::Describe;

use super::dialect::Dialect;
use super::handle::{Notes, Tx};
use super::savepoint::Savepoint;

/// What a statement yields, as it comes.
type Steps<'e, DB> = BoxStream<'e, Result<Either<<DB as Database>::QueryResult, <DB as Database>::Row>, Error>>;

macro_rules! executor {
    ($($handle:ty $(, $more:lifetime)?;)+) => {$(
        impl<'c, $($more,)? DB: Dialect> Executor<'c> for &'c mut $handle
        where
            for<'e> &'e mut DB::Connection: Executor<'e, Database = DB>,
        {
            type Database = DB;

            fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> Steps<'e, DB>
            where
                'c: 'e,
                E: 'q + Execute<'q, DB>,
            {
                let (conn, notes) = self.parts();
                match notes.admit(query) {
                    Ok(query) => steps(conn.fetch_many(query), notes),
                    Err(error) => stream::once(future::ready(Err(error))).boxed(),
                }
            }

            fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<DB::Row>, Error>>
            where
                'c: 'e,
                E: 'q + Execute<'q, DB>,
            {
                let (conn, notes) = self.parts();
                match notes.admit(query) {
                    Ok(query) => answer(conn.fetch_optional(query), notes).boxed(),
                    Err(error) => future::ready(Err(error)).boxed(),
                }
            }

            fn prepare_with<'e>(
                self,
                sql: SqlStr,
                parameters: &'e [DB::TypeInfo],
            ) -> BoxFuture<'e, Result<DB::Statement, Error>>
            where
                'c: 'e,
            {
                let (conn, notes) = self.parts();
                match notes.check(sql.as_str()) {
                    Ok(()) => answer(conn.prepare_with(sql, parameters), notes).boxed(),
                    Err(error) => future::ready(Err(error)).boxed(),
                }
            }

            // Part of the trait whenever any crate of the build turns on sqlx's offline mode,
            // which is why this crate turns it on itself.
            fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<DB>, Error>>
            where
                'c: 'e,
            {
                let (conn, notes) = self.parts();
                match notes.check(sql.as_str()) {
                    Ok(()) => answer(conn.describe(sql), notes).boxed(),
                    Err(error) => future::ready(Err(error)).boxed(),
                }
            }
        }
    )+};
}

/// Passes on what a statement yields. Until its end was seen, or that of a later one, its error
/// is still to come.
fn steps<'e, DB: Dialect>(mut steps: Steps<'e, DB>, notes: &'e mut Notes<DB>) -> Steps<'e, DB> {
    stream::poll_fn(move |cx| {
        notes.loose = true;
        let step = steps.poll_next_unpin(cx);
        match &step {
            Poll::Ready(Some(Err(error))) => notes.end(Some(error)),
            Poll::Ready(None) => notes.end(None),
            _ => {}
        }
        step
    })
    .boxed()
}

/// The same for a statement with one answer.
async fn answer<DB: Dialect, T>(
    answer: impl Future<Output = Result<T, Error>>,
    notes: &mut Notes<DB>,
) -> Result<T, Error> {
    notes.loose = true;
    let answer = answer.await;
    notes.end(answer.as_ref().err());
    answer
}

executor! {
    Tx<DB>;
    Savepoint<'s, DB>, 's;
}
