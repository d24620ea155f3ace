//! `once` on PostgreSQL. `DATABASE_URL` names a server where databases may be made; each test
//! makes its own.

mod once_contract;

use futures_util::future::join_all;
use idempotent_jobs::__private::store::{PostgresStore, Store};
use idempotent_jobs::outbox::EnqueueError;
use idempotent_jobs::{OnceError, PgTx};
use once_contract::{Bed, Conn, Placed, Result, Told, assert_stored, insert, place, placed, request};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection, PgPool, Postgres, Transaction};

struct PgBed {
    name: String,
    pool: PgPool,
}

fn server() -> PgConnectOptions {
    tests::servers::postgres().parse().expect("DATABASE_URL is a URL of PostgreSQL")
}

async fn admin(sql: String) {
    let mut conn = server().connect().await.expect("the server of DATABASE_URL answers");
    conn.execute(AssertSqlSafe(sql)).await.unwrap();
}

impl PgBed {
    fn options(&self) -> PgConnectOptions {
        server().database(&self.name)
    }
}

impl Bed for PgBed {
    type Db = Postgres;
    type Store = PostgresStore;
    type Tx = PgTx;
    const ABORTS: bool = true;
    const DROPS: bool = false;

    async fn new() -> Self {
        let name = format!("idempotent_jobs_test_{:016x}", rand::random::<u64>());
        admin(format!("CREATE DATABASE {name}")).await;
        let pool = PgPoolOptions::new().max_connections(10).connect_lazy_with(server().database(&name));
        let bed = Self { name, pool };
        bed.store().await;
        bed.pool.execute(Self::EFFECTS).await.unwrap();
        bed
    }

    async fn clean(self) {
        self.pool.close().await;
        admin(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }

    async fn store(&self) -> PostgresStore {
        PostgresStore::open(self.options().to_url_lossy().as_str(), 1).await.unwrap()
    }

    async fn begin(&self) -> Transaction<'static, Postgres> {
        self.pool.begin().await.unwrap()
    }

    async fn run(conn: &mut PgConnection, sql: String) -> std::result::Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.map(drop)
    }

    async fn run_in_job(tx: &mut PgTx, sql: String) -> std::result::Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await.map(drop)
    }

    async fn enqueue_in_job(tx: &mut PgTx, id: i64) -> std::result::Result<(), EnqueueError> {
        tx.enqueue(&Told { id }).await
    }

    async fn outside(&self) -> Conn<Self> {
        self.options().connect().await.unwrap()
    }

    async fn count(&self, sql: String) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.outside().await).await.unwrap()
    }

    fn answers() -> &'static str {
        "idempotent_jobs.answers"
    }

    fn outbox() -> &'static str {
        "idempotent_jobs.outbox"
    }
}

once_contract!(PgBed);

#[tokio::test]
async fn without_tables_it_says_how_to_make_them() {
    let bed = PgBed::new().await;
    bed.pool.execute("DROP SCHEMA idempotent_jobs CASCADE").await.unwrap();
    let mut tx = bed.begin().await;
    let error = place::<PgBed>(&mut tx, "a", 100, 1).await.unwrap_err();
    assert!(error.to_string().contains("outbox::migrate"), "{error}");
    tx.rollback().await.unwrap();
    bed.clean().await;
}

/// The claim has no answer yet, so the database refuses: nothing is stored.
#[tokio::test]
async fn an_effect_that_commits_by_itself_stores_nothing() {
    let bed = PgBed::new().await;
    for swallows in [true, false] {
        for ending in ["COMMIT", "ROLLBACK", "SET CONSTRAINTS ALL IMMEDIATE; COMMIT", "COMMIT AND CHAIN"] {
            let mut tx = bed.begin().await;
            let done: Result = idempotent_jobs::once(&mut *tx, "orders", "a", &request(100), async |tx| {
                PgBed::run(tx, insert(1)).await?;
                let ended = PgBed::run(tx, ending.into()).await;
                if swallows { Ok(Placed { id: 1 }) } else { ended.map(|()| Placed { id: 1 }) }
            })
            .await;
            done.expect_err(ending);
            drop(tx);
            assert_stored(&bed, 0, 0).await;
        }
    }
    bed.clean().await;
}

/// A transaction that made all constraints immediate is served all the same.
#[tokio::test]
async fn immediate_constraints_do_not_stop_it() {
    let bed = PgBed::new().await;
    let mut tx = bed.begin().await;
    tx.execute("SET CONSTRAINTS ALL IMMEDIATE").await.unwrap();
    assert!(place::<PgBed>(&mut tx, "a", 100, 1).await.unwrap().ran());
    tx.commit().await.unwrap();
    assert_stored(&bed, 1, 1).await;
    bed.clean().await;
}

const LEVELS: [&str; 3] = [
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
];

#[tokio::test]
async fn db_12_under_every_isolation_the_effect_happens_once() {
    let bed = PgBed::new().await;
    for (round, level) in (1..).zip(LEVELS) {
        let race = |id| {
            let bed = &bed;
            async move {
                loop {
                    let mut tx = bed.pool.begin_with(level).await.unwrap();
                    match place::<PgBed>(&mut tx, level, 100, id).await {
                        Ok(done) if tx.commit().await.is_ok() => return done,
                        Ok(_) | Err(OnceError::Store { transient: true, .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        let answers = join_all((0..6).map(race)).await;
        assert_eq!(answers.iter().filter(|answer| answer.ran()).count(), 1, "{level}: {answers:?}");
        assert_stored(&bed, round, round).await;
    }
    bed.clean().await;
}

/// A key that was committed behind the snapshot is neither free nor to be seen.
#[tokio::test]
async fn db_12_a_key_behind_the_snapshot_is_a_transient_error() {
    let bed = PgBed::new().await;
    for (round, level) in (1..).zip(LEVELS) {
        let mut tx = bed.pool.begin_with(level).await.unwrap();
        PgBed::run(&mut tx, "SELECT count(*) FROM effects".into()).await.unwrap();
        assert!(placed(&bed, level, 1).await.ran());
        let done = place::<PgBed>(&mut tx, level, 100, 2).await;
        if level == LEVELS[0] {
            assert!(!done.unwrap().ran());
        } else {
            assert!(matches!(done, Err(OnceError::Store { transient: true, .. })), "{done:?}");
        }
        drop(tx);
        assert!(!placed(&bed, level, 3).await.ran());
        assert_stored(&bed, round, round).await;
    }
    bed.clean().await;
}

/// Two transactions with the same two keys in different order: the database ends one of them.
#[tokio::test]
async fn keys_in_different_order_may_deadlock_which_is_transient() {
    let bed = PgBed::new().await;
    let (mut one, mut two) = (bed.begin().await, bed.begin().await);
    assert!(place::<PgBed>(&mut one, "a", 100, 1).await.unwrap().ran());
    assert!(place::<PgBed>(&mut two, "b", 100, 2).await.unwrap().ran());
    let first = async {
        let done = place::<PgBed>(&mut one, "b", 100, 3).await;
        if done.is_ok() {
            one.commit().await.unwrap()
        } else {
            one.rollback().await.unwrap()
        }
        done
    };
    let second = async {
        let done = place::<PgBed>(&mut two, "a", 100, 4).await;
        if done.is_ok() {
            two.commit().await.unwrap()
        } else {
            two.rollback().await.unwrap()
        }
        done
    };
    let (first, second) = tokio::join!(first, second);
    let (done, failed) = if first.is_ok() { (first, second) } else { (second, first) };
    done.unwrap();
    assert!(matches!(failed, Err(OnceError::Store { transient: true, .. })), "{failed:?}");
    assert_stored(&bed, 2, 2).await;
    bed.clean().await;
}

/// An answer lies as long as its row does.
#[tokio::test]
async fn answers_are_deleted_by_age() {
    let bed = PgBed::new().await;
    placed(&bed, "a", 1).await;
    bed.pool.execute("UPDATE idempotent_jobs.answers SET answered_at = now() - interval '40 days'").await.unwrap();
    placed(&bed, "b", 2).await;
    let purge = "DELETE FROM idempotent_jobs.answers WHERE answered_at < now() - interval '30 days'";
    assert_eq!(bed.pool.execute(purge).await.unwrap().rows_affected(), 1);
    assert!(placed(&bed, "a", 3).await.ran());
    assert!(!placed(&bed, "b", 4).await.ran());
    bed.clean().await;
}
