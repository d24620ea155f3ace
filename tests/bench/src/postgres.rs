//! A database on the PostgreSQL server.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::Failure;

const TABLES: &str = include_str!("../postgres.sql");

/// The group of claims that were there before anything was measured.
pub const EARLIER: &str = "earlier";

/// Its address.
#[derive(Debug, Clone)]
pub struct Postgres {
    pub url: String,
    /// Whether claims of before are kept by a reset, and never counted.
    pub keeps_earlier: bool,
}

impl Postgres {
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), keeps_earlier: false }
    }

    /// Makes a new database beside the server's own, with our tables and those of the jobs.
    pub async fn create(server: &str, name: &str) -> Result<Self, Failure> {
        let mut conn = PgConnection::connect(server).await?;
        durable(&mut conn).await?;
        conn.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        conn.close().await?;
        let (rest, _) = server.rsplit_once('/').ok_or("DATABASE_URL names no database")?;
        let made = Self::at(format!("{rest}/{name}"));
        let mut conn = made.connect().await?;
        conn.execute(AssertSqlSafe(idempotent_jobs::postgres_migrations_sql())).await?;
        conn.execute(TABLES).await?;
        conn.close().await?;
        Ok(made)
    }

    pub async fn connect(&self) -> Result<PgConnection, Failure> {
        Ok(PgConnection::connect(&self.url).await?)
    }

    /// Nobody inherits rows, dead ones, or pages that are still to be written.
    pub async fn reset(&self) -> Result<(), Failure> {
        let mut conn = self.connect().await?;
        conn.execute("TRUNCATE charges RESTART IDENTITY").await?;
        if self.keeps_earlier {
            let others = "DELETE FROM idempotent_jobs.processed WHERE \"group\" <> $1";
            sqlx::query(others).bind(EARLIER).execute(&mut conn).await?;
            conn.execute("VACUUM idempotent_jobs.processed").await?;
        } else {
            conn.execute("TRUNCATE idempotent_jobs.processed").await?;
        }
        // Offsets begin anew for each measurement, and so does what is recorded of them.
        let others = "DELETE FROM idempotent_jobs.watermarks WHERE \"group\" <> $1";
        sqlx::query(others).bind(EARLIER).execute(&mut conn).await?;
        conn.execute("CHECKPOINT").await?;
        Ok(conn.close().await?)
    }

    /// Claims and effects.
    pub async fn rows(&self) -> Result<(u64, u64), Failure> {
        let mut conn = self.connect().await?;
        let (claims, effects): (i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM idempotent_jobs.processed WHERE \"group\" <> $1), \
             (SELECT count(*) FROM charges)",
        )
        .bind(EARLIER)
        .fetch_one(&mut conn)
        .await?;
        conn.close().await?;
        Ok((u64::try_from(claims)?, u64::try_from(effects)?))
    }
}

/// Numbers of a server that does not write to disk would say nothing.
async fn durable(conn: &mut PgConnection) -> Result<(), Failure> {
    for (setting, wanted) in [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")] {
        let found: String =
            sqlx::query_scalar("SELECT current_setting($1)").bind(setting).fetch_one(&mut *conn).await?;
        if found != wanted {
            return Err(format!("PostgreSQL runs with {setting} = {found}: set it to {wanted}").into());
        }
    }
    Ok(())
}
