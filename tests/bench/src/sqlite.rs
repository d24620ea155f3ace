//! A SQLite file.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use crate::Failure;

const TABLES: &str = include_str!("../sqlite.sql");

/// Where it is.
#[derive(Debug, Clone)]
pub struct Sqlite {
    pub file: PathBuf,
}

impl Sqlite {
    pub fn url(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.file.display())
    }

    /// A new file, with our tables and those of the jobs.
    pub async fn reset(&self) -> Result<(), Failure> {
        for end in ["", "-wal", "-shm"] {
            match fs::remove_file(format!("{}{end}", self.file.display())) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        let mut conn =
            SqliteConnectOptions::from_str(&self.url())?.journal_mode(SqliteJournalMode::Wal).connect().await?;
        conn.execute(AssertSqlSafe(idempotent_jobs::sqlite_migrations_sql())).await?;
        conn.execute(TABLES).await?;
        Ok(conn.close().await?)
    }

    /// Claims and effects.
    pub async fn rows(&self) -> Result<(u64, u64), Failure> {
        let mut conn = SqliteConnectOptions::from_str(&self.url())?.connect().await?;
        let (claims, effects): (i64, i64) =
            sqlx::query_as("SELECT (SELECT count(*) FROM idempotent_jobs_processed), (SELECT count(*) FROM charges)")
                .fetch_one(&mut conn)
                .await?;
        conn.close().await?;
        Ok((u64::try_from(claims)?, u64::try_from(effects)?))
    }
}
