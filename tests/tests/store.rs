//! The store's contract on SQLite, and what is SQLite's own.

mod store_contract;

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use idempotent_jobs::__private::store::{Claimed, Rolled, SqliteStore, Store, Tx};
use idempotent_jobs::{Savepoint, SqliteTx};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, SqlSafeStr, Sqlite, SqliteConnection};
use store_contract::{BUDGET, Bed, TERMS, assert_stored, effect, found, fresh, message};

struct SqliteBed {
    url: String,
    directory: std::path::PathBuf,
}

impl SqliteBed {
    async fn connect(&self) -> SqliteConnection {
        self.url.parse::<SqliteConnectOptions>().unwrap().connect().await.unwrap()
    }
}

impl Bed for SqliteBed {
    type Db = Sqlite;
    type Store = SqliteStore;
    const ABORTS: bool = false;

    async fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("idempotent-jobs-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&directory).unwrap();
        let url = format!("sqlite://{}?mode=rwc", directory.join("test.db").display());
        let bed = Self { url, directory };
        bed.outside(Self::EFFECTS.into()).await;
        bed
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn clean(self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }

    async fn outside(&self, sql: String) {
        self.connect().await.execute(AssertSqlSafe(sql)).await.unwrap();
    }

    async fn count(&self, sql: String) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connect().await).await.unwrap()
    }

    async fn run(tx: &mut Tx<Sqlite>, sql: String) -> Result<u64, sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await.map(|done| done.rows_affected())
    }

    async fn run_round(tx: &mut Tx<Sqlite>, sql: &[&str]) -> Result<(), sqlx::Error> {
        let conn = tx.connection().await?;
        let mut last = Ok(());
        for sql in sql {
            if let Err(error) = sqlx::raw_sql(AssertSqlSafe(*sql)).execute(&mut *conn).await {
                last = Err(error);
            }
        }
        last
    }

    async fn run_part(part: &mut Savepoint<'_, Sqlite>, sql: String) -> Result<u64, sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *part).await.map(|done| done.rows_affected())
    }

    fn processed() -> &'static str {
        "idempotent_jobs_processed"
    }

    fn outbox() -> &'static str {
        "idempotent_jobs_outbox"
    }

    const MANY: i64 = 5_000;

    async fn hold_jobs(&self) -> SqliteConnection {
        let mut conn = self.connect().await;
        conn.execute("BEGIN IMMEDIATE").await.unwrap();
        conn
    }
}

contract!(SqliteBed);

#[tokio::test]
async fn every_kind_of_query_takes_the_handle() {
    let bed = SqliteBed::new().await;
    let store = bed.open(1).await;
    let mut tx = store.begin(TERMS).await.unwrap();
    every_kind_of_query(&mut tx).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    assert_eq!(bed.effects().await, 1);
    let mut tx = store.begin(TERMS).await.unwrap();
    tx.prepare("COMMIT".into_sql_str()).await.map(drop).unwrap_err();
    tx.describe("COMMIT".into_sql_str()).await.map(drop).unwrap_err();
    sqlx::query("COMMIT").fetch_optional(&mut tx).await.map(drop).unwrap_err();
    store.rollback(tx).await;
    bed.clean().await;
}

/// As a handler has it.
async fn every_kind_of_query(tx: &mut SqliteTx) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO effects (id) VALUES ($1)").bind(7_i64).execute(&mut *tx).await?;
    let (id,): (i64,) = sqlx::query_as("SELECT id FROM effects").fetch_one(&mut *tx).await?;
    let same: i64 = sqlx::query_scalar("SELECT id FROM effects WHERE id = $1").bind(id).fetch_one(&mut *tx).await?;
    assert_eq!(same, 7);
    let mut rows = sqlx::query("SELECT id FROM effects").fetch(&mut *tx);
    assert!(rows.next().await.unwrap().is_ok());
    drop(rows);
    tx.prepare("SELECT 1".into_sql_str()).await?;
    let described = tx.describe("SELECT id FROM effects".into_sql_str()).await?;
    assert_eq!(described.columns().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_tainted_connection_is_not_kept() {
    let bed = SqliteBed::new().await;
    let store = bed.open(1).await;
    let temporary = "SELECT count(*) FROM sqlite_temp_schema";
    let mut tx = store.begin(TERMS).await.unwrap();
    SqliteBed::run(&mut tx, "CREATE TEMP TABLE t (a)".into()).await.unwrap();
    store.commit(tx, BUDGET).await.unwrap();
    let mut tx = store.begin(TERMS).await.unwrap();
    let found: i64 = sqlx::query_scalar(temporary).fetch_one(&mut tx).await.unwrap();
    assert_eq!(found, 0);
    store.rollback(tx).await;
    bed.clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_attempt_gives_up_the_write_lock_in_the_middle_of_a_statement() {
    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let bed = SqliteBed::new().await;
    let store = bed.open(1).await;
    let mut tx = fresh::<SqliteBed>(&store, &message("[1]", 5)).await;
    let cancelled = tokio::time::timeout(Duration::from_millis(200), SqliteBed::run(&mut tx, ENDLESS.into())).await;
    assert!(cancelled.is_err());
    let dropped = Instant::now();
    drop(tx);
    assert_eq!(found::<SqliteBed>(&store, &message("[1]", 5)).await, Claimed::Fresh);
    assert!(dropped.elapsed() < Duration::from_secs(3), "{:?}", dropped.elapsed());
    bed.clean().await;
}

#[tokio::test]
async fn an_error_that_ends_the_transaction_fails_the_attempt() {
    let bed = SqliteBed::new().await;
    let store = bed.open(1).await;
    for more in ["INSERT INTO effects (id) VALUES (2)", "SELECT 1", "UPDATE effects SET id = 3"] {
        let mut tx = fresh::<SqliteBed>(&store, &message("[1]", 5)).await;
        effect::<SqliteBed>(&mut tx, 1).await;
        SqliteBed::run(&mut tx, "INSERT OR ROLLBACK INTO effects (id) VALUES (1)".into()).await.unwrap_err();
        let _ = SqliteBed::run(&mut tx, more.into()).await;
        let committed = store.commit(tx, BUDGET).await.unwrap_err();
        assert!(committed.to_string().contains("a statement failed"), "{more}: {committed}");
        assert_stored(&bed, 0, 0).await;
    }

    let mut tx = fresh::<SqliteBed>(&store, &message("[1]", 5)).await;
    effect::<SqliteBed>(&mut tx, 1).await;
    SqliteBed::run(&mut tx, "INSERT OR ROLLBACK INTO effects (id) VALUES (1)".into()).await.unwrap_err();
    assert_eq!(store.rollback(tx).await, Rolled::Back);
    bed.clean().await;
}

#[tokio::test]
async fn durability_is_full_whatever_the_file_says() {
    let bed = SqliteBed::new().await;
    let store = bed.open(8).await;
    assert_eq!(store.connections(), 1);
    let mut tx = store.begin(TERMS).await.unwrap();
    for (pragma, expected) in [("PRAGMA synchronous", 2), ("PRAGMA foreign_keys", 1)] {
        let found: i64 = sqlx::query_scalar(pragma).fetch_one(&mut tx).await.unwrap();
        assert_eq!(found, expected, "{pragma}");
    }
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut tx).await.unwrap();
    assert_eq!(journal, "wal");
    store.rollback(tx).await;
    bed.clean().await;
}

#[tokio::test]
async fn a_database_that_forgets_is_refused() {
    for url in ["sqlite::memory:", "sqlite://x.db?mode=memory", "sqlite://"] {
        let error = SqliteStore::open(url, 1).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("lost with its connection"), "{url}: {error}");
    }
    let error = SqliteStore::open("sqlite:///nowhere/x.db", 1).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("mode=rwc"), "{error}");
}

#[tokio::test]
async fn tables_of_another_build_are_refused() {
    let bed = SqliteBed::new().await;
    bed.open(1).await;
    bed.outside("UPDATE idempotent_jobs_migrations SET checksum = 'x'".into()).await;
    let error = SqliteStore::open(bed.url(), 1).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("another text"), "{error}");
    bed.outside("DELETE FROM idempotent_jobs_migrations; INSERT INTO idempotent_jobs_migrations (version, checksum) VALUES (99, 'x')".into()).await;
    let error = SqliteStore::open(bed.url(), 1).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("newer than this program"), "{error}");
    bed.clean().await;
}

#[tokio::test]
async fn ded_06_another_unique_index_is_refused() {
    let bed = SqliteBed::new().await;
    bed.open(1).await;
    bed.outside(
        "DROP TABLE idempotent_jobs_processed; \
         CREATE TABLE idempotent_jobs_processed (job, key, processed_at, PRIMARY KEY (job, key, processed_at))"
            .into(),
    )
    .await;
    let error = SqliteStore::open(bed.url(), 1).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("exactly (job, key)"), "{error}");
    bed.clean().await;
}

#[tokio::test]
async fn tables_made_by_hand_are_found() {
    let bed = SqliteBed::new().await;
    bed.outside(idempotent_jobs::sqlite_migrations_sql()).await;
    bed.open(1).await;
    bed.clean().await;
}
