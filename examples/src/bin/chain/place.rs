//! Where it runs: two databases, ours and that of the services outside.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::SqlitePool;

use crate::{Failure, jobs, outside};

/// Both databases, opened.
pub struct Place {
    pub url: String,
    pub ours: SqlitePool,
    pub services: SqlitePool,
}

impl Place {
    pub async fn open(url: String, services: &str) -> Result<Self, Failure> {
        let ours = SqlitePool::connect(&url).await?;
        sqlx::raw_sql(jobs::TABLES).execute(&ours).await?;
        Ok(Self { url, ours, services: outside::open(services).await? })
    }

    /// Returns when so many receipts are committed.
    pub async fn receipts(ours: SqlitePool, expected: i64) {
        let count = || sqlx::query_scalar("SELECT count(*) FROM receipts").fetch_one(&ours);
        while count().await.unwrap_or(0) < expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A folder that goes when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn create() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("chain-example-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub fn url(&self, name: &str) -> String {
        format!("sqlite://{}?mode=rwc", self.0.join(name).display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
