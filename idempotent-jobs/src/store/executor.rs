//! Handles and savepoints as executors of sqlx, with every statement checked on its way.

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::future::{self, FutureExt, TryFutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use sqlx::{Database, Either, Error, Execute, Executor, SqlStr};
use sqlx_core::describe::Describe;

use super::dialect::Dialect;
use super::handle::Tx;
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
                    Ok(query) => conn.fetch_many(query).inspect_err(|error| notes.see(error)).boxed(),
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
                    Ok(query) => conn.fetch_optional(query).inspect_err(|error| notes.see(error)).boxed(),
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
                    Ok(()) => conn.prepare_with(sql, parameters).inspect_err(|error| notes.see(error)).boxed(),
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
                    Ok(()) => conn.describe(sql).inspect_err(|error| notes.see(error)).boxed(),
                    Err(error) => future::ready(Err(error)).boxed(),
                }
            }
        }
    )+};
}

executor! {
    Tx<DB>;
    Savepoint<'s, DB>, 's;
}
