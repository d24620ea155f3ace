//! `once` on SQLite.

mod once_contract;

use idempotent_jobs::__private::store::{SqliteStore, Store};
use idempotent_jobs::outbox::EnqueueError;
use idempotent_jobs::{OnceError, SqliteTx};
use once_contract::{Bed, Conn, Placed, Result, Told, assert_stored, insert, place, request};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Sqlite, SqliteConnection, SqlitePool, Transaction};

struct SqliteBed {
    url: String,
    directory: std::path::PathBuf,
    pool: SqlitePool,
}

impl Bed for SqliteBed {
    type Db = Sqlite;
    type Store = SqliteStore;
    type Tx = SqliteTx;
    const ABORTS: bool = false;
    const DROPS: bool = true;

    async fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("idempotent-jobs-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&directory).unwrap();
        let url = format!("sqlite://{}?mode=rwc", directory.join("test.db").display());
        SqliteStore::open(&url, 1).await.unwrap();
        let pool = SqlitePool::connect(&url).await.unwrap();
        pool.execute(Self::EFFECTS).await.unwrap();
        Self { url, directory, pool }
    }

    async fn clean(self) {
        self.pool.close().await;
        std::fs::remove_dir_all(&self.directory).unwrap();
    }

    async fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.url, 1).await.unwrap()
    }

    async fn begin(&self) -> Transaction<'static, Sqlite> {
        self.pool.begin_with("BEGIN IMMEDIATE").await.unwrap()
    }

    async fn run(conn: &mut SqliteConnection, sql: String) -> std::result::Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.map(drop)
    }

    async fn run_in_job(tx: &mut SqliteTx, sql: String) -> std::result::Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await.map(drop)
    }

    async fn enqueue_in_job(tx: &mut SqliteTx, id: i64) -> std::result::Result<(), EnqueueError> {
        tx.enqueue(&Told { id }).await
    }

    async fn outside(&self) -> Conn<Self> {
        self.url.parse::<SqliteConnectOptions>().unwrap().connect().await.unwrap()
    }

    async fn count(&self, sql: String) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.outside().await).await.unwrap()
    }

    fn answers() -> &'static str {
        "idempotent_jobs_answers"
    }

    fn outbox() -> &'static str {
        "idempotent_jobs_outbox"
    }
}

once_contract!(SqliteBed);

#[tokio::test]
async fn without_tables_it_says_how_to_make_them() {
    let bed = SqliteBed::new().await;
    bed.pool.execute("DROP TABLE idempotent_jobs_answers").await.unwrap();
    let mut tx = bed.begin().await;
    let error = place::<SqliteBed>(&mut tx, "a", 100, 1).await.unwrap_err();
    assert!(error.to_string().contains("outbox::migrate"), "{error}");
    tx.rollback().await.unwrap();
    bed.clean().await;
}

/// Nothing can be undone then, and nothing is done again in silence.
#[tokio::test]
async fn an_effect_that_commits_by_itself_is_told() {
    let bed = SqliteBed::new().await;
    for (stored, fails) in [(1, false), (2, true)] {
        let key = fails.to_string();
        // Not one of the pool's: sqlx goes on counting the transaction.
        let mut conn = bed.outside().await;
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let done: Result = idempotent_jobs::once(&mut *tx, "orders", key.as_str(), &request(100), async |tx| {
            SqliteBed::run(tx, insert(1)).await?;
            SqliteBed::run(tx, "COMMIT".into()).await?;
            if fails { Err(sqlx::Error::RowNotFound) } else { Ok(Placed { id: 1 }) }
        })
        .await;
        let error = done.unwrap_err();
        assert!(fails || error.to_string().contains("the effect ended"), "{error}");
        drop(tx);
        drop(conn);
        let mut tx = bed.begin().await;
        match place::<SqliteBed>(&mut tx, &key, 100, 2).await {
            Ok(done) => assert!(!fails && !done.ran()),
            Err(error) => assert!(fails && matches!(error, OnceError::Unanswered { .. }), "{error}"),
        }
        tx.rollback().await.unwrap();
        assert_stored(&bed, stored, stored).await;
    }
    bed.clean().await;
}

/// A transaction that did not begin as a writer cannot go on as one when another has written.
#[tokio::test]
async fn a_transaction_that_has_read_is_told_to_begin_again() {
    let bed = SqliteBed::new().await;
    let mut tx = bed.pool.begin().await.unwrap();
    let _: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&mut *tx).await.unwrap();
    let mut other = bed.begin().await;
    assert!(place::<SqliteBed>(&mut other, "a", 100, 1).await.unwrap().ran());
    other.commit().await.unwrap();
    let error = place::<SqliteBed>(&mut tx, "a", 100, 2).await.unwrap_err();
    assert!(matches!(error, OnceError::Store { transient: true, .. }), "{error}");
    drop(tx);
    // One that has not read yet is served.
    let mut tx = bed.pool.begin().await.unwrap();
    assert!(!place::<SqliteBed>(&mut tx, "a", 100, 3).await.unwrap().ran());
    tx.commit().await.unwrap();
    assert_stored(&bed, 1, 1).await;
    bed.clean().await;
}

/// What a web framework asks of a handler.
#[test]
fn its_future_can_go_to_another_thread() {
    fn send<T: Send>(_: T) {}
    fn check(pool: &SqlitePool) {
        send(async {
            let mut tx = pool.begin().await?;
            let request = request(1);
            let done = idempotent_jobs::once(&mut *tx, "orders", ("a", 1), &request, async |tx| {
                sqlx::query("INSERT INTO effects (id) VALUES (1)").execute(&mut *tx).await?;
                Ok::<_, sqlx::Error>(Placed { id: 1 })
            });
            done.await.map(drop).map_err(|_| sqlx::Error::RowNotFound)?;
            tx.commit().await
        });
    }
    let _ = check;
}
