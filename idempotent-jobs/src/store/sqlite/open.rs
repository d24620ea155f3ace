//! Finding the database, and refusing what would break the promise later.

use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Sqlite, SqliteConnection};
use tokio::time::{Instant, sleep};

use super::migrate;
use crate::store::slots::{CONNECT, connect, part};
use crate::store::{Fault, StoreError};

/// How long a statement waits for another process's transaction.
pub(super) const BUSY: Duration = Duration::from_secs(5);

pub(super) async fn open(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    const DOING: &str = "reading DATABASE_URL";
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|error| StoreError::lasting(DOING, format!("not of the form sqlite://path/to/file.db: {error}")))?;
    let path = options.get_filename().to_owned();
    if path.as_os_str().is_empty() || url.contains(":memory:") || url.contains("mode=memory") {
        return Err(StoreError::lasting(
            DOING,
            "a database in memory is lost with its connection, and the claims with it: give it a file, \
             sqlite://path/to/file.db?mode=rwc",
        ));
    }
    // FULL: without it a power cut takes back committed claims whose offsets Kafka keeps.
    let options = options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY);
    let mut conn = settle(&options).await.map_err(|error| at(&path, error))?;
    let migrated = migrate::migrate(&mut conn).await.map_err(|error| at(&path, error));
    part::<Sqlite>(conn).await;
    migrated.map(|()| options)
}

/// Connects. The change to WAL needs the file for itself and does not wait for it, so that
/// processes that start at once find it busy.
async fn settle(options: &SqliteConnectOptions) -> Result<SqliteConnection, StoreError> {
    let deadline = Instant::now() + CONNECT;
    loop {
        match connect::<Sqlite>(options).await {
            Err(error) if error.fault == Fault::Transient && Instant::now() < deadline => {
                sleep(Duration::from_millis(20)).await;
            }
            done => return done,
        }
    }
}

pub(super) fn at(path: &std::path::Path, error: StoreError) -> StoreError {
    let StoreError { doing, fault, source } = error;
    let missing = if path.exists() { "" } else { " (the file does not exist: `?mode=rwc` creates it)" };
    StoreError { doing, fault, source: format!("SQLite file `{}`: {source}{missing}", path.display()).into() }
}
