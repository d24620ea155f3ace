//! Finding the database, and refusing what would break the promise later.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Executor, PgConnection, Postgres, Row};

use super::migrate;
use crate::store::StoreError;
use crate::store::slots::{ANSWER, connect, part, within};

const DOING: &str = "checking the server";

/// The oldest server whose behaviour is known here.
pub(super) const OLDEST: i32 = 140_000;

pub(super) async fn open(url: &str) -> Result<PgConnectOptions, StoreError> {
    opened(url, async |conn| migrate::migrate(conn).await).await
}

/// For a role that may only read.
pub(super) async fn open_to_read(url: &str) -> Result<PgConnectOptions, StoreError> {
    opened(url, async |conn| within(ANSWER, DOING, migrate::current(conn)).await).await
}

async fn opened(
    url: &str,
    tables: impl AsyncFnOnce(&mut PgConnection) -> Result<(), StoreError>,
) -> Result<PgConnectOptions, StoreError> {
    let options = options(url)?;
    let place = place(&options);
    let mut conn = connect::<Postgres>(&options).await.map_err(|error| at(&place, error))?;
    let mut other = connect::<Postgres>(&options).await.map_err(|error| at(&place, error))?;
    let checked = async {
        within(ANSWER, DOING, server(&mut conn, &mut other)).await?;
        tables(&mut conn).await
    };
    let checked = checked.await.map_err(|error| at(&place, error));
    part::<Postgres>(conn).await;
    part::<Postgres>(other).await;
    checked.map(|()| options)
}

/// Where the database is to be found.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    PgConnectOptions::from_str(url).map_err(|_| {
        // The driver's words may quote the URL, and with it the password.
        StoreError::lasting("reading DATABASE_URL", "not of the form postgres://user:password@host:port/database")
    })
}

async fn server(conn: &mut PgConnection, other: &mut PgConnection) -> Result<(), StoreError> {
    let failed = |error| StoreError::driver::<Postgres>(DOING, error);
    // Before any SET: behind a pooling proxy it would land in somebody else's session.
    if pooled(conn, other).await.map_err(failed)? {
        return Err(StoreError::lasting(
            DOING,
            "a pooling proxy (such as PgBouncer in transaction mode) stands before the server and gives a session's \
             statements to changing connections, which breaks prepared statements and locks: \
             connect to PostgreSQL itself, or to a session pool",
        ));
    }
    let (version, found) = version(conn).await.map_err(failed)?;
    if version < OLDEST {
        return Err(StoreError::lasting(DOING, format!("PostgreSQL 14 or later is needed, and this is {found}")));
    }
    let row = conn.fetch_one("SELECT current_setting('server_encoding')").await.map_err(failed)?;
    let encoding: String = row.try_get(0).map_err(failed)?;
    // The other one takes bytes as they are.
    if !["UTF8", "SQL_ASCII"].contains(&&*encoding) {
        return Err(StoreError::lasting(
            DOING,
            format!(
                "the database's encoding is {encoding}, in which not every key, header and error can be stored, and a \
                 message that cannot be stored would stop its partition: create a database with ENCODING 'UTF8'"
            ),
        ));
    }
    Ok(())
}

/// The server's version, as a number and in its own words.
pub(super) async fn version(conn: &mut PgConnection) -> Result<(i32, String), sqlx::Error> {
    let row =
        conn.fetch_one("SELECT current_setting('server_version_num')::int, current_setting('server_version')").await?;
    // Text, since a string without parameters goes by the simple protocol.
    let number = row.try_get_unchecked::<&str, _>(0)?.parse().unwrap_or(0);
    Ok((number, row.try_get(1)?))
}

/// Whether two connections share server processes. A transaction on one of them keeps a
/// process busy: a proxy then has to give the other one another, or gave it the same before.
pub(super) async fn pooled(conn: &mut PgConnection, other: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let before = process(conn).await?;
    other.execute("BEGIN").await?;
    let busy = process(other).await?;
    let after = process(conn).await?;
    other.execute("ROLLBACK").await?;
    Ok(busy == before || after != before)
}

async fn process(conn: &mut PgConnection) -> Result<String, sqlx::Error> {
    // The simple protocol: named statements are just what a pooling proxy may not carry.
    conn.fetch_one("SELECT pg_backend_pid()::text").await?.try_get(0)
}

/// Where the database is, without the password.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let server = match options.get_socket() {
        Some(path) => path.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    format!("PostgreSQL at {server}, database `{database}`, user `{}`", options.get_username())
}

pub(super) fn at(place: &str, error: StoreError) -> StoreError {
    let StoreError { doing, fault, source } = error;
    StoreError { doing, fault, source: format!("{place}: {source}").into() }
}
