//! The store's contract on PostgreSQL, and what is PostgreSQL's own. `DATABASE_URL` names a
//! server where databases and roles may be made; each test makes its own.

mod store_contract;

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use idempotent_jobs::__private::store::{
    Buried, Claimed, CommitError, Fault, Isolation, PostgresStore, Rolled, SqliteStore, Store, StoreError, Terms, Tx,
};
use idempotent_jobs::dead_letters::{DeadLetters, Filter, Foreseen};
use idempotent_jobs::outbox::{self, Enqueued};
use idempotent_jobs::{Outgoing, PgTx, Reason, Savepoint};
use sqlx::postgres::{PgConnectOptions, PgListener};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Postgres, SqlSafeStr};
use store_contract::lanes;
use store_contract::pooling;
use store_contract::proxy::{At, Proxy};
use store_contract::{BUDGET, Bed, TERMS, asked, assert_stored, bury, effect, found, fresh, letters, mail, message};

struct PgBed {
    url: String,
    name: String,
}

fn server() -> PgConnectOptions {
    let url = std::env::var("DATABASE_URL")
        .expect("DATABASE_URL has to name a PostgreSQL server for these tests: start one by tests/services/run");
    url.parse().expect("DATABASE_URL is a URL of PostgreSQL")
}

async fn admin(sql: String) {
    let mut conn = server().connect().await.expect("the server of DATABASE_URL answers");
    conn.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// The URL of a database on the server, or on a proxy before it, for a user.
fn url(database: &str, user: Option<&str>, address: Option<SocketAddr>) -> String {
    let mut url = server().database(database);
    if let Some(user) = user {
        url = url.username(user).password("secret-of-the-test");
    }
    if let Some(address) = address {
        url = url.host("127.0.0.1").port(address.port());
    }
    url.to_url_lossy().to_string()
}

/// Where the server listens.
async fn address() -> SocketAddr {
    let options = server();
    let address = format!("{}:{}", options.get_host(), options.get_port());
    tokio::net::lookup_host(address).await.unwrap().next().unwrap()
}

impl PgBed {
    async fn connect(&self) -> PgConnection {
        self.url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap()
    }

    /// Asks again until this number is what a query of one number gives; for at most 10 s.
    async fn until(&self, sql: &'static str, number: i64) {
        let mut conn = self.connect().await;
        let asking = async {
            while sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut conn).await.unwrap() != number {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), asking).await.expect(sql);
    }

    async fn pid(tx: &mut PgTx) -> i32 {
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap()
    }
}

impl Bed for PgBed {
    type Db = Postgres;
    type Store = PostgresStore;
    const ABORTS: bool = true;

    async fn new() -> Self {
        let name = format!("idempotent_jobs_test_{:016x}", rand::random::<u64>());
        admin(format!("CREATE DATABASE {name}")).await;
        let bed = Self { url: url(&name, None, None), name };
        bed.outside(Self::EFFECTS.into()).await;
        bed
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn clean(self) {
        admin(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }

    async fn outside(&self, sql: String) {
        self.connect().await.execute(AssertSqlSafe(sql)).await.unwrap();
    }

    async fn count(&self, sql: String) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connect().await).await.unwrap()
    }

    async fn run(tx: &mut Tx<Postgres>, sql: String) -> Result<u64, sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await.map(|done| done.rows_affected())
    }

    async fn run_round(tx: &mut Tx<Postgres>, sql: &[&str]) -> Result<(), sqlx::Error> {
        let conn = tx.connection().await?;
        let mut last = Ok(());
        for sql in sql {
            if let Err(error) = sqlx::raw_sql(AssertSqlSafe(*sql)).execute(&mut *conn).await {
                last = Err(error);
            }
        }
        last
    }

    async fn run_part(part: &mut Savepoint<'_, Postgres>, sql: String) -> Result<u64, sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *part).await.map(|done| done.rows_affected())
    }

    fn processed() -> &'static str {
        "idempotent_jobs.processed"
    }

    fn outbox() -> &'static str {
        "idempotent_jobs.outbox"
    }

    const MANY: i64 = 200_000;

    async fn hold_jobs(&self) -> PgConnection {
        let mut conn = self.connect().await;
        conn.execute("BEGIN; SELECT FROM idempotent_jobs.jobs FOR UPDATE").await.unwrap();
        conn
    }
}

contract!(PgBed);

/// Declares a test with a database of its own.
macro_rules! on_postgres {
    ($(async fn $case:ident($bed:ident) $body:block)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let bed = PgBed::new().await;
            {
                let $bed = &bed;
                $body
            }
            bed.clean().await;
        }
    )+};
}

on_postgres! {
    async fn out_01_of_a_partition_key_ids_are_drawn_in_the_order_of_commit(bed) {
        outbox::migrate(bed.url()).await.unwrap();
        let (mut first, mut second, mut third) = (bed.connect().await, bed.connect().await, bed.connect().await);
        let mut first = first.begin().await.unwrap();
        outbox::enqueue(&mut *first, &mail("1", "A", 5)).await.unwrap();
        // Another key does not wait, and neither does a record without an order.
        let mut third = third.begin().await.unwrap();
        outbox::enqueue(&mut *third, &mail("3", "B", 5)).await.unwrap();
        outbox::enqueue(&mut *third, Outgoing::of(&mail("4", "A", 5)).unwrap().unordered()).await.unwrap();
        third.commit().await.unwrap();

        let later = tokio::spawn(async move {
            let mut tx = second.begin().await.unwrap();
            outbox::enqueue_all(&mut *tx, [&mail("0", "A", 5), &mail("2", "A", 5)]).await.unwrap();
            tx.commit().await.unwrap();
        });
        bed.until("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 1).await;
        outbox::enqueue(&mut *first, &mail("5", "A", 5)).await.unwrap();
        first.commit().await.unwrap();
        later.await.unwrap();
        let order: Vec<String> = sqlx::query_scalar(
            "SELECT key FROM idempotent_jobs.outbox WHERE ordered AND partition_key = 'A' ORDER BY id",
        )
        .fetch_all(&mut bed.connect().await)
        .await
        .unwrap();
        assert_eq!(order, [r#"["1"]"#, r#"["5"]"#, r#"["0"]"#, r#"["2"]"#]);
    }

    async fn a_relay_is_called_only_while_it_is_asleep(bed) {
        outbox::migrate(bed.url()).await.unwrap();
        let mut listener = PgListener::connect(bed.url()).await.unwrap();
        listener.listen("idempotent_jobs_outbox").await.unwrap();
        let mut conn = bed.connect().await;
        outbox::enqueue(&mut conn, &mail("1", "A", 5)).await.unwrap();
        bed.outside("INSERT INTO idempotent_jobs.relays VALUES ('r', true, now() + interval '1 minute')".into()).await;
        outbox::enqueue_all(&mut conn, [&mail("2", "A", 5), &mail("3", "A", 5)]).await.unwrap();
        bed.outside("UPDATE idempotent_jobs.relays SET asleep = false".into()).await;
        outbox::enqueue(&mut conn, &mail("4", "A", 5)).await.unwrap();
        bed.outside("NOTIFY idempotent_jobs_outbox, 'end'".into()).await;
        let mut calls = Vec::new();
        while calls.last().is_none_or(|call| call != "end") {
            calls.push(listener.recv().await.unwrap().payload().to_owned());
        }
        assert_eq!(calls, ["", "end"]);
    }

    async fn without_tables_enqueuing_says_what_to_do(bed) {
        let refused = outbox::enqueue(&mut bed.connect().await, &mail("1", "A", 5)).await.unwrap_err();
        assert!(refused.to_string().contains("start a worker once, or call `outbox::migrate`"), "{refused}");
    }

    async fn a_record_that_was_sent_may_be_enqueued_again_at_once(bed) {
        outbox::migrate(bed.url()).await.unwrap();
        outbox::enqueue(&mut bed.connect().await, &mail("1", "A", 5)).await.unwrap();
        let mut relay = bed.connect().await;
        let mut marking = relay.begin().await.unwrap();
        marking.execute("DELETE FROM idempotent_jobs.outbox").await.unwrap();
        let mut conn = bed.connect().await;
        let again = tokio::spawn(async move { outbox::enqueue(&mut conn, &mail("1", "A", 5)).await });
        bed.until("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted", 1).await;
        marking.commit().await.unwrap();
        assert_eq!(again.await.unwrap().unwrap(), Enqueued::Stored);
    }

    async fn every_kind_of_query_takes_the_handle(bed) {
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
    }

    async fn a_clean_connection_is_kept_and_a_tainted_one_is_not(bed) {
        let store = bed.open(1).await;
        let mut tx = store.begin(TERMS).await.unwrap();
        let mut last = PgBed::pid(&mut tx).await;
        store.commit(tx, BUDGET).await.unwrap();
        for (sql, kept) in [
            ("SELECT 1", true),
            ("SET LOCAL work_mem = '1MB'", true),
            ("SET work_mem = '1MB'", false),
            ("CREATE TEMP TABLE t (a int)", false),
            ("SELECT set_config('a.b', '1', true)", true),
            ("SELECT pg_advisory_lock(1)", false),
        ] {
            for commits in [true, false] {
                let mut tx = store.begin(TERMS).await.unwrap();
                assert_eq!(PgBed::pid(&mut tx).await, last);
                PgBed::run(&mut tx, sql.into()).await.unwrap();
                if commits {
                    store.commit(tx, BUDGET).await.unwrap();
                } else {
                    store.rollback(tx).await;
                }
                let mut tx = store.begin(TERMS).await.unwrap();
                let now = PgBed::pid(&mut tx).await;
                assert_eq!(now == last, kept, "{sql}");
                last = now;
                store.rollback(tx).await;
            }
        }
    }

    async fn db_13_a_claim_that_waits_too_long_is_transient(bed) {
        let store = bed.open(2).await;
        let holder = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        let mut tx = store.begin(Terms { timeout: Duration::from_millis(400), ..TERMS }).await.unwrap();
        let error = store.claim(&mut tx, message("[1]", 6).claim()).await.unwrap_err();
        assert_eq!(error.fault, Fault::Transient, "{error}");
        let code = error.source.downcast_ref::<sqlx::Error>().unwrap().as_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "55P03");
        assert_eq!(store.rollback(tx).await, Rolled::Back);
        store.commit(holder, BUDGET).await.unwrap();
    }

    async fn db_09_a_serialization_failure_is_transient_and_then_a_duplicate(bed) {
        let store = bed.open(2).await;
        let terms = Terms { isolation: Isolation::Serializable, ..TERMS };
        let first = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        let mut second = store.begin(terms).await.unwrap();
        PgBed::run(&mut second, "SELECT 1".into()).await.unwrap();
        let message = message("[1]", 5);
        let (claimed, committed) = tokio::join!(store.claim(&mut second, message.claim()), async {
            tokio::task::yield_now().await;
            store.commit(first, BUDGET).await
        });
        committed.unwrap();
        assert_eq!(claimed.unwrap_err().fault, Fault::Transient);
        store.rollback(second).await;
        let mut again = store.begin(terms).await.unwrap();
        assert_eq!(store.claim(&mut again, message.claim()).await.unwrap(), Claimed::Duplicate);
        store.rollback(again).await;
    }

    async fn db_09_the_level_is_the_jobs_whatever_the_database_says(bed) {
        bed.outside(format!("ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'", bed.name)).await;
        let store = bed.open(1).await;
        for (isolation, expected) in [
            (Isolation::ReadCommitted, "read committed"),
            (Isolation::RepeatableRead, "repeatable read"),
            (Isolation::Serializable, "serializable"),
        ] {
            let mut tx = store.begin(Terms { isolation, ..TERMS }).await.unwrap();
            let found: String = sqlx::query_scalar("SELECT current_setting('transaction_isolation')").fetch_one(&mut tx).await.unwrap();
            assert_eq!(found, expected);
            store.rollback(tx).await;
        }
        // Two deliveries of one key, the second waiting for the first: no 40001.
        store_contract::db_13_a_claim_waits_for_another_of_the_same_key(bed).await;
    }

    async fn a_commit_is_synchronous_whatever_the_database_or_a_handler_says(bed) {
        bed.outside(format!("ALTER DATABASE {} SET synchronous_commit = off", bed.name)).await;
        bed.outside(
            "CREATE TABLE seen (setting text); \
             CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN INSERT INTO seen VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END'; \
             CREATE CONSTRAINT TRIGGER see AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION see()".into(),
        ).await;
        let store = bed.open(1).await;
        for (id, sql) in [(1, "SELECT 1"), (2, "SET LOCAL synchronous_commit = off"), (3, "SET synchronous_commit = off")] {
            let mut tx = store.begin(TERMS).await.unwrap();
            PgBed::run(&mut tx, sql.into()).await.unwrap();
            effect::<PgBed>(&mut tx, id).await;
            store.commit(tx, BUDGET).await.unwrap();
        }
        bed.outside("CREATE FUNCTION hidden() RETURNS text LANGUAGE sql AS 'SELECT set_config(''synchronous_commit'', ''off'', true)'".into()).await;
        let mut tx = store.begin(TERMS).await.unwrap();
        PgBed::run(&mut tx, "SELECT hidden()".into()).await.unwrap();
        effect::<PgBed>(&mut tx, 4).await;
        let next = store.commit_and_begin(tx, BUDGET, TERMS).await.unwrap().unwrap();
        store.rollback(next).await;
        assert_eq!(bed.count("SELECT count(*) FROM seen WHERE setting = 'on'".into()).await, 4);
    }

    async fn a_server_process_that_dies_is_transient_and_stores_nothing(bed) {
        let store = bed.open(1).await;
        let message = message("[1]", 5);
        // In the middle of the handler.
        let mut tx = fresh::<PgBed>(&store, &message).await;
        let pid = PgBed::pid(&mut tx).await;
        bed.outside(format!("SELECT pg_terminate_backend({pid})")).await;
        let error = PgBed::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await.unwrap_err();
        assert_eq!(PostgresStore::fault(&error), Fault::Transient, "{error}");
        assert_eq!(store.rollback(tx).await, Rolled::Back);
        // Between the handler and the guard.
        let mut tx = fresh::<PgBed>(&store, &message).await;
        effect::<PgBed>(&mut tx, 1).await;
        let pid = PgBed::pid(&mut tx).await;
        bed.outside(format!("SELECT pg_terminate_backend({pid}, 5000)")).await;
        match store.commit(tx, BUDGET).await {
            Err(CommitError::Refused(error)) => assert_eq!(error.fault, Fault::Transient, "{error}"),
            other => panic!("{other:?}"),
        }
        // While it was idle: the next transaction does not notice.
        let mut tx = fresh::<PgBed>(&store, &message).await;
        let pid = PgBed::pid(&mut tx).await;
        store.rollback(tx).await;
        bed.outside(format!("SELECT pg_terminate_backend({pid}, 5000)")).await;
        assert_eq!(found::<PgBed>(&store, &message).await, Claimed::Fresh);
        assert_stored(bed, 0, 0).await;
    }

    async fn db_04_a_commit_without_an_answer_is_decided_by_the_claim(bed) {
        let proxy = Proxy::before(address().await).await;
        let store = PostgresStore::open(&url(&bed.name, None, Some(proxy.address)), 1).await.unwrap();
        let mut stored = 0;
        for (offset, at, commits) in [(1, At::Pass, true), (2, At::CutBefore, false), (3, At::CutAfter, true), (4, At::Silent, true)] {
            let message = message(&format!("[{offset}]"), offset);
            let mut tx = fresh::<PgBed>(&store, &message).await;
            effect::<PgBed>(&mut tx, offset).await;
            proxy.at_commit(at);
            let committed = store.commit(tx, Duration::from_millis(700)).await;
            proxy.at_commit(At::Pass);
            match at {
                At::Pass => committed.unwrap(),
                _ => assert!(matches!(committed, Err(CommitError::Unknown(_))), "{at:?}: {committed:?}"),
            }
            let expected = if commits { Claimed::Duplicate } else { Claimed::Fresh };
            assert_eq!(found::<PgBed>(&store, &message).await, expected, "{at:?}");
            stored += i64::from(commits);
            assert_stored(bed, stored, stored).await;
        }
    }

    async fn on_a_path_that_swallows_everything_nothing_waits_for_ever(bed) {
        let proxy = Proxy::before(address().await).await;
        let store = PostgresStore::open(&url(&bed.name, None, Some(proxy.address)), 2).await.unwrap();
        let direct = bed.open(1).await;
        let short = Duration::from_millis(300);
        // The claim is the engine's to end: with the transaction its connection closes.
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        proxy.at_commit(At::Deaf);
        tokio::time::timeout(short, store.claim(&mut tx, message("[2]", 6).claim())).await.unwrap_err();
        drop(tx);
        assert_eq!(found::<PgBed>(&direct, &message("[1]", 5)).await, Claimed::Fresh);
        // A kept connection.
        proxy.at_commit(At::Pass);
        let tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        store.rollback(tx).await;
        proxy.at_commit(At::Deaf);
        let error = store.begin(Terms { timeout: short, ..TERMS }).await.unwrap_err();
        assert_eq!(error.fault, Fault::Transient, "{error}");
        // A new one, and the statements of a start.
        let limit = Duration::from_secs(25);
        let through = url(&bed.name, None, Some(proxy.address));
        let (begun, registered, opened) = tokio::join!(
            tokio::time::timeout(limit, store.begin(TERMS)),
            tokio::time::timeout(limit, store.register(&[], &|_, _| None)),
            tokio::time::timeout(limit, PostgresStore::open(&through, 1)),
        );
        for error in [begun.unwrap().unwrap_err(), registered.unwrap().unwrap_err(), opened.unwrap().map(drop).unwrap_err()] {
            assert!(error.fault == Fault::Transient && error.to_string().contains("no answer within"), "{error}");
        }
    }

    async fn a_statement_the_handler_did_not_wait_for_is_not_lost_sight_of(bed) {
        let store = bed.open(1).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        effect::<PgBed>(&mut tx, 1).await;
        let late = PgBed::run(&mut tx, "SELECT pg_sleep(0.3); INSERT INTO effects (id) VALUES (1)".into());
        tokio::time::timeout(Duration::from_millis(50), late).await.unwrap_err();
        match store.commit(tx, BUDGET).await {
            Err(CommitError::Swallowed { first: Some(first) }) => assert!(first.starts_with("23505"), "{first}"),
            other => panic!("{other:?}"),
        }
        assert_stored(bed, 0, 0).await;
    }

    async fn a_statement_left_running_past_the_budget_is_the_handlers_own(bed) {
        let store = bed.open(1).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        let left = PgBed::run(&mut tx, "SELECT pg_sleep(10)".into());
        tokio::time::timeout(Duration::from_millis(50), left).await.unwrap_err();
        match store.commit(tx, Duration::ZERO).await {
            Err(CommitError::Refused(error)) => {
                assert_eq!(error.fault, Fault::Lasting);
                assert!(error.to_string().contains("before COMMIT was sent"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_stored(bed, 0, 0).await;
    }

    async fn a_savepoint_that_could_not_open_is_a_swallowed_error(bed) {
        let store = bed.open(1).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        PgBed::run(&mut tx, "SELECT 1 / 0".into()).await.unwrap_err();
        assert!(tx.begin().await.is_err());
        let _ = PgBed::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await;
        match store.commit(tx, BUDGET).await {
            Err(CommitError::Swallowed { first: Some(first) }) => assert!(first.starts_with("22012"), "{first}"),
            other => panic!("{other:?}"),
        }
        assert_stored(bed, 0, 0).await;
    }

    async fn a_swallowed_error_is_reported_without_values(bed) {
        let store = bed.open(1).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        PgBed::run(&mut tx, "SELECT 'a secret'::int".into()).await.unwrap_err();
        let committed = store.commit(tx, BUDGET).await.unwrap_err();
        assert!(committed.to_string().contains("22P02"), "{committed}");
        assert!(!format!("{committed} {committed:?}").contains("a secret"), "{committed:?}");
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        let nul = sqlx::query("SELECT $1::text").bind("a\0b").execute(&mut tx).await.unwrap_err();
        assert_eq!(PostgresStore::fault(&nul), Fault::Lasting);
        store.rollback(tx).await;
    }

    async fn errors_are_judged_and_told_through_whatever_wraps_them(bed) {
        let store = bed.open(1).await;
        for (state, fault) in [("40001", Fault::Transient), ("42501", Fault::Lasting), ("22P02", Fault::Lasting)] {
            let raise = || async {
                let mut tx = store.begin(TERMS).await.unwrap();
                let sql = format!("DO $$ BEGIN RAISE 'of \"4111\"' USING ERRCODE = '{state}', DETAIL = '4222'; END $$");
                let error = PgBed::run(&mut tx, sql).await.unwrap_err();
                store.rollback(tx).await;
                error
            };
            let ways: [Box<dyn StdError + Send + Sync>; 4] = [
                raise().await.into(),
                anyhow::Error::from(raise().await).into(),
                anyhow::Error::from(raise().await).context("charging").into(),
                raise().await.into_database_error().unwrap().into_error(),
            ];
            for error in ways {
                assert_eq!(PostgresStore::fault(&*error), fault, "{error:?}");
                // 42501 ends in the byte of SQLITE_BUSY.
                assert_eq!(SqliteStore::fault(&*error), Fault::Lasting, "a foreign database's: {error:?}");
                let told = PostgresStore::describe(&*error);
                assert!(!told.contains("4222"), "{told}");
                if state == "22P02" {
                    assert!(told.contains("22P02 (its text") && !told.contains("4111"), "{told}");
                } else {
                    assert_eq!(told.matches("4111").count(), 1, "{told}");
                }
            }
        }
        let deep: Box<dyn StdError + Send + Sync> = anyhow::anyhow!("c").context("b").context("a").into();
        assert_eq!(PostgresStore::describe(&*deep), "a: b: c");
    }

    async fn tables_that_change_under_a_kept_connection_cost_one_attempt_of_it(bed) {
        let store = bed.open(1).await;
        let select = "SELECT * FROM effects";
        let mut tx = store.begin(TERMS).await.unwrap();
        sqlx::query(select).fetch_all(&mut tx).await.unwrap();
        store.commit(tx, BUDGET).await.unwrap();
        bed.outside("ALTER TABLE effects ADD note text".into()).await;
        let mut tx = store.begin(TERMS).await.unwrap();
        let error = sqlx::query(select).fetch_all(&mut tx).await.unwrap_err();
        assert_eq!(PostgresStore::fault(&error), Fault::Transient, "{error}");
        store.rollback(tx).await;
        let mut tx = store.begin(TERMS).await.unwrap();
        sqlx::query(select).fetch_all(&mut tx).await.unwrap();
        store.commit(tx, BUDGET).await.unwrap();
    }

    async fn a_read_only_database_is_transient(bed) {
        let store = bed.open(1).await;
        bed.outside(format!("ALTER DATABASE {} SET default_transaction_read_only = on", bed.name)).await;
        let error = store.begin(TERMS).await.map(drop).unwrap_err();
        assert_eq!(error.fault, Fault::Transient, "{error}");
    }

    async fn a_role_without_create_works_when_the_tables_are_there(bed) {
        let role = format!("role_{}", bed.name);
        admin(format!("CREATE ROLE {role} LOGIN PASSWORD 'secret-of-the-test'")).await;
        let url = url(&bed.name, Some(&role), None);
        let error = PostgresStore::open(&url, 1).await.map(drop).unwrap_err().to_string();
        for part in ["postgres_migrations_sql", "GRANT USAGE ON SCHEMA idempotent_jobs"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("secret-of-the-test"), "{error}");
        bed.outside(idempotent_jobs::postgres_migrations_sql()).await;
        let error = PostgresStore::open(&url, 1).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("GRANT USAGE"), "{error}");
        bed.outside(format!("GRANT USAGE ON SCHEMA idempotent_jobs TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA idempotent_jobs TO {role}")).await;
        let error = PostgresStore::open(&url, 1).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("processed: INSERT"), "{error}");
        bed.outside(format!(
            "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA idempotent_jobs TO {role}; GRANT ALL ON effects TO {role}"
        )).await;
        let store = PostgresStore::open(&url, 1).await.unwrap();
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        effect::<PgBed>(&mut tx, 1).await;
        tx.connection().await.unwrap();
        store.commit(tx, BUDGET).await.unwrap();
        assert_stored(bed, 1, 1).await;
        drop(store);
        bed.outside(format!("DROP OWNED BY {role}")).await;
        admin(format!("DROP ROLE {role}")).await;
    }

    async fn a_role_that_only_reads_looks_at_dead_letters_and_the_outbox_and_changes_nothing(bed) {
        let role = format!("role_{}", bed.name);
        admin(format!("CREATE ROLE {role} LOGIN PASSWORD 'secret-of-the-test'")).await;
        let url = url(&bed.name, Some(&role), None);
        let store = bed.open(1).await;
        bury::<PgBed>(&store, &message("[1]", 5), Reason::Exhausted).await;
        bed.outside(format!("GRANT USAGE ON SCHEMA idempotent_jobs TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA idempotent_jobs TO {role}")).await;
        assert!(DeadLetters::connect(&url).await.is_err(), "it could not decide on one");
        let outbox = outbox::Outbox::connect_to_read(&url).await.unwrap();
        assert_eq!((outbox.set_aside(9).await.unwrap().len(), outbox.count("t", None).await.unwrap()), (0, 0));
        assert!(outbox.discard("t", None).await.is_err());
        let letters = DeadLetters::connect_to_read(&url).await.unwrap();
        let found = letters.list(&Filter::open()).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(letters.foresee(&Filter::open()).await.unwrap(), [(found[0].id, Foreseen::Runs)]);
        assert!(letters.show(found[0].id).await.unwrap().is_some() && letters.parked().await.unwrap().is_empty());
        let error = letters.skip(&Filter::open(), "ann").await.unwrap_err().to_string();
        assert!(error.contains("permission denied"), "{error}");
        bed.outside("DELETE FROM idempotent_jobs.migrations WHERE version = 7".into()).await;
        let error = DeadLetters::connect_to_read(&url).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("1 of its migrations are missing"), "{error}");
        bed.outside(format!("DROP OWNED BY {role}")).await;
        admin(format!("DROP ROLE {role}")).await;
    }

    async fn a_schema_made_by_an_administrator_is_filled(bed) {
        bed.outside("CREATE SCHEMA idempotent_jobs; SET search_path TO nowhere".into()).await;
        bed.outside(format!("ALTER DATABASE {} SET search_path = nowhere", bed.name)).await;
        let store = bed.open(1).await;
        assert_eq!(found::<PgBed>(&store, &message("[1]", 5)).await, Claimed::Fresh);
    }

    async fn tables_of_another_build_are_refused(bed) {
        bed.open(1).await;
        bed.outside("UPDATE idempotent_jobs.migrations SET checksum = 'x'".into()).await;
        let error = PostgresStore::open(bed.url(), 1).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("another text"), "{error}");
        bed.outside("UPDATE idempotent_jobs.migrations SET version = version + 98".into()).await;
        let error = PostgresStore::open(bed.url(), 1).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("newer than this program"), "{error}");
    }

    async fn ded_06_a_partitioned_table_is_refused(bed) {
        bed.open(1).await;
        bed.outside(
            "DROP TABLE idempotent_jobs.processed; \
             CREATE TABLE idempotent_jobs.processed (job text, key text, processed_at timestamptz, \
             PRIMARY KEY (job, key, processed_at)) PARTITION BY RANGE (processed_at)".into(),
        ).await;
        let error = PostgresStore::open(bed.url(), 1).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("exactly (job, key)"), "{error}");
    }

    async fn a_database_that_cannot_store_every_text_is_refused(bed) {
        let name = format!("{}_latin", bed.name);
        admin(format!("CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")).await;
        let error = PostgresStore::open(&url(&name, None, None), 1).await.map(drop).unwrap_err();
        admin(format!("DROP DATABASE {name} WITH (FORCE)")).await;
        assert!(error.to_string().contains("LATIN1") && error.to_string().contains("UTF8"), "{error}");
    }

    async fn a_proxy_that_pools_by_transaction_is_refused(bed) {
        let proxy = pooling::before(address().await).await;
        let error = PostgresStore::open(&url(&bed.name, None, Some(proxy)), 2).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("PgBouncer"), "{error}");
        // One that only passes things on is not.
        let proxy = Proxy::before(address().await).await;
        PostgresStore::open(&url(&bed.name, None, Some(proxy.address)), 2).await.unwrap();
    }

    async fn a_chain_keeps_its_connection_and_gives_the_next_job_its_own_settings(bed) {
        bed.outside(
            "CREATE FUNCTION hidden() RETURNS text LANGUAGE sql AS \
             'SELECT set_config(''lock_timeout'', ''1'', true) || set_config(''work_mem'', ''64'', true)'".into(),
        ).await;
        let store = bed.open(1).await;
        let mut tx = store.begin(TERMS).await.unwrap();
        let (pid, work_mem) = (PgBed::pid(&mut tx).await, setting(&mut tx, "work_mem").await);
        for (seconds, lock, attempt) in [(20, "10s", "20s"), (20, "10s", "20s"), (4, "2s", "4s"), (4, "2s", "4s"), (20, "10s", "20s")] {
            PgBed::run(&mut tx, "SELECT hidden()".into()).await.unwrap();
            assert_eq!(setting(&mut tx, "lock_timeout").await, "1ms");
            let next = Terms { timeout: Duration::from_secs(seconds), ..TERMS };
            tx = store.commit_and_begin(tx, BUDGET, next).await.unwrap().unwrap();
            assert_eq!(PgBed::pid(&mut tx).await, pid);
            assert_eq!(setting(&mut tx, "work_mem").await, work_mem);
            assert_eq!(setting(&mut tx, "lock_timeout").await, lock);
            assert_eq!(setting(&mut tx, "statement_timeout").await, attempt);
            assert_eq!(setting(&mut tx, "idle_in_transaction_session_timeout").await, attempt);
        }
        store.rollback(tx).await;
        // Of the session, of other terms, and of the session again after a rollback.
        for (seconds, lock) in [(20, "10s"), (4, "2s"), (20, "10s")] {
            let mut tx = store.begin(Terms { timeout: Duration::from_secs(seconds), ..TERMS }).await.unwrap();
            assert_eq!(PgBed::pid(&mut tx).await, pid);
            assert_eq!(setting(&mut tx, "lock_timeout").await, lock);
            store.rollback(tx).await;
        }
    }

    async fn a_session_has_its_limits_after_its_first_commit_and_not_after_a_rollback(bed) {
        let store = bed.open(1).await;
        for commits in [false, true, false] {
            let mut tx = store.begin(TERMS).await.unwrap();
            for (name, value) in [("lock_timeout", "10s"), ("statement_timeout", "20s"), ("idle_in_transaction_session_timeout", "20s")] {
                assert_eq!(setting(&mut tx, name).await, value);
            }
            effect::<PgBed>(&mut tx, 1).await;
            if commits {
                store.commit(tx, BUDGET).await.unwrap();
                bed.outside("DELETE FROM effects".into()).await;
            } else {
                store.rollback(tx).await;
            }
        }
    }

    async fn what_a_handler_set_for_its_transaction_ends_with_it(bed) {
        let store = bed.open(1).await;
        let mut tx = store.begin(TERMS).await.unwrap();
        let pid = PgBed::pid(&mut tx).await;
        store.rollback(tx).await;
        for (offset, sql) in (1..).zip(["SET LOCAL statement_timeout = 1000", "SET TRANSACTION READ ONLY", "SELECT set_config('transaction_read_only', 'on', true)"]) {
            let mut tx = fresh::<PgBed>(&store, &message(&format!("[{offset}]"), offset)).await;
            PgBed::run(&mut tx, sql.into()).await.unwrap();
            assert!(PostgresStore::disturbed(&tx).unwrap().contains("SET LOCAL"));
            assert!(store.commit_and_begin(tx, BUDGET, TERMS).await.unwrap().is_none(), "{sql}");
            let mut tx = store.begin(TERMS).await.unwrap();
            assert_eq!(PgBed::pid(&mut tx).await, pid, "the session is as it was");
            assert_eq!(setting(&mut tx, "statement_timeout").await, "20s");
            effect::<PgBed>(&mut tx, offset).await;
            store.commit(tx, BUDGET).await.unwrap();
        }
        assert_stored(bed, 3, 3).await;
    }

    async fn a_chain_without_an_answer_is_decided_by_the_claim(bed) {
        let proxy = Proxy::before(address().await).await;
        let store = PostgresStore::open(&url(&bed.name, None, Some(proxy.address)), 1).await.unwrap();
        let mut stored = 0;
        for (offset, at, commits) in [(1, At::Pass, true), (2, At::CutBefore, false), (3, At::CutAfter, true), (4, At::Silent, true), (5, At::Deaf, false)] {
            let message = message(&format!("[{offset}]"), offset);
            let mut tx = fresh::<PgBed>(&store, &message).await;
            effect::<PgBed>(&mut tx, offset).await;
            proxy.at_commit(at);
            let committed = store.commit_and_begin(tx, Duration::from_millis(700), TERMS).await;
            proxy.at_commit(At::Pass);
            match (at, committed) {
                (At::Pass, Ok(Some(next))) => drop(next),
                (At::Pass, other) => panic!("{other:?}"),
                (_, Err(CommitError::Unknown(_))) => {}
                (at, other) => panic!("{at:?}: {other:?}"),
            }
            let expected = if commits { Claimed::Duplicate } else { Claimed::Fresh };
            assert_eq!(found::<PgBed>(&store, &message).await, expected, "{at:?}");
            stored += i64::from(commits);
            assert_stored(bed, stored, stored).await;
        }
    }

    async fn a_server_process_that_dies_before_a_chain_stores_nothing(bed) {
        let store = bed.open(1).await;
        let message = message("[1]", 5);
        let mut tx = fresh::<PgBed>(&store, &message).await;
        effect::<PgBed>(&mut tx, 1).await;
        let pid = PgBed::pid(&mut tx).await;
        bed.outside(format!("SELECT pg_terminate_backend({pid}, 5000)")).await;
        let committed = store.commit_and_begin(tx, BUDGET, TERMS).await;
        assert!(matches!(committed, Err(CommitError::Unknown(_))), "a proxy may say so after a commit: {committed:?}");
        // In a transaction that a chain began.
        let tx = store.begin(TERMS).await.unwrap();
        let mut tx = store.commit_and_begin(tx, BUDGET, TERMS).await.unwrap().unwrap();
        let pid = PgBed::pid(&mut tx).await;
        bed.outside(format!("SELECT pg_terminate_backend({pid}, 5000)")).await;
        assert_eq!(store.claim(&mut tx, message.claim()).await.unwrap_err().fault, Fault::Transient);
        assert_eq!(store.rollback(tx).await, Rolled::Back);
        // While it was idle: a look does not notice.
        let mut tx = store.begin(TERMS).await.unwrap();
        let pid = PgBed::pid(&mut tx).await;
        store.rollback(tx).await;
        bed.outside(format!("SELECT pg_terminate_backend({pid}, 5000)")).await;
        assert_eq!(store.seen(&[message.claim()]).await.unwrap(), [Claimed::Fresh]);
        assert_stored(bed, 0, 0).await;
    }

    async fn db_09_a_serialization_failure_at_the_end_of_a_chained_job_is_transient(bed) {
        let store = bed.open(2).await;
        let terms = Terms { isolation: Isolation::Serializable, ..TERMS };
        let mut one = store.begin(terms).await.unwrap();
        let mut two = store.begin(terms).await.unwrap();
        let pid = PgBed::pid(&mut two).await;
        for (id, tx) in [(1, &mut one), (2, &mut two)] {
            PgBed::run(tx, "SELECT count(*) FROM effects".into()).await.unwrap();
            effect::<PgBed>(tx, id).await;
        }
        let next = store.commit_and_begin(one, BUDGET, terms).await.unwrap().unwrap();
        match store.commit_and_begin(two, BUDGET, terms).await {
            Err(CommitError::Refused(error)) => assert_eq!(error.fault, Fault::Transient, "{error}"),
            other => panic!("{other:?}"),
        }
        let mut again = store.begin(TERMS).await.unwrap();
        assert_ne!(PgBed::pid(&mut again).await, pid, "the connection is closed");
        store.rollback(again).await;
        store.rollback(next).await;
        assert_eq!(bed.effects().await, 1);
    }

    async fn db_15_a_transaction_left_idle_is_ended_by_the_server_and_costs_no_attempt(bed) {
        let store = bed.open(1).await;
        let mut tx = store.begin(Terms { timeout: Duration::from_millis(200), ..TERMS }).await.unwrap();
        assert_eq!(store.claim(&mut tx, message("[1]", 1).claim()).await.unwrap(), Claimed::Fresh);
        let pid = PgBed::pid(&mut tx).await;
        let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        let ended = async { while bed.count(alive.clone()).await > 0 {} };
        tokio::time::timeout(BUDGET, ended).await.expect("the server does not wait for ever");
        let error = PgBed::run(&mut tx, "INSERT INTO effects (id) VALUES (1)".into()).await.unwrap_err();
        assert_eq!(PostgresStore::fault(&error), Fault::Transient, "{error}");
        assert!(error.to_string().contains("idle-in-transaction"), "{error}");
        drop(tx);
        assert_stored(bed, 0, 0).await;
    }

    async fn db_13_a_claim_behind_a_commit_waits_for_nobody_and_the_commit_counts(bed) {
        let store = bed.open(2).await;
        let holder = fresh::<PgBed>(&store, &message("[2]", 2)).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 1)).await;
        effect::<PgBed>(&mut tx, 1).await;
        let opened = store.commit_and_claim(tx, BUDGET, TERMS, message("[2]", 2).claim()).await.unwrap();
        assert!(opened.is_none(), "the claim failed, and its connection is closed");
        assert_stored(bed, 1, 1).await;
        store.rollback(holder).await;

        // What hurried the claim is over with it.
        let tx = fresh::<PgBed>(&store, &message("[3]", 3)).await;
        let opened = store.commit_and_claim(tx, BUDGET, TERMS, message("[4]", 4).claim()).await.unwrap();
        let (mut tx, claimed) = opened.unwrap();
        assert!(claimed);
        let limit: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut tx).await.unwrap();
        assert_eq!(limit, "10s");
        store.rollback(tx).await;
        assert_stored(bed, 2, 1).await;
    }

    async fn a_statement_the_handler_did_not_wait_for_is_seen_before_a_chain(bed) {
        let store = bed.open(1).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        effect::<PgBed>(&mut tx, 1).await;
        let late = PgBed::run(&mut tx, "SELECT pg_sleep(0.3); INSERT INTO effects (id) VALUES (1)".into());
        tokio::time::timeout(Duration::from_millis(50), late).await.unwrap_err();
        match store.commit_and_begin(tx, BUDGET, TERMS).await {
            Err(CommitError::Swallowed { first: Some(first) }) => assert!(first.starts_with("23505"), "{first}"),
            other => panic!("{other:?}"),
        }
        assert_stored(bed, 0, 0).await;
    }

    async fn making_all_constraints_immediate_counts_as_a_commit_only_when_lent(bed) {
        let store = bed.open(1).await;
        let mut tx = fresh::<PgBed>(&store, &message("[1]", 5)).await;
        PgBed::run(&mut tx, "SET CONSTRAINTS ALL IMMEDIATE".into()).await.unwrap();
        tx.connection().await.unwrap();
        effect::<PgBed>(&mut tx, 1).await;
        store.commit(tx, BUDGET).await.unwrap();
        let mut tx = fresh::<PgBed>(&store, &message("[2]", 6)).await;
        let error = PgBed::run_round(&mut tx, &["SET CONSTRAINTS ALL IMMEDIATE"]).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().code().unwrap(), "2D000");
        store.rollback(tx).await;
        assert_stored(bed, 1, 1).await;
    }
}

async fn setting(tx: &mut PgTx, name: &str) -> String {
    sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(&mut *tx).await.unwrap()
}

/// As a handler has it.
async fn every_kind_of_query(tx: &mut PgTx) -> Result<(), sqlx::Error> {
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
async fn an_unreachable_database_is_named_without_its_password() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [
        format!("postgres://me:hunter2@127.0.0.1:{}/shop", closed.port()),
        "postgres://me:hunter2@127.0.0.1:notaport/shop".to_owned(),
        "mysql://me:hunter2@127.0.0.1/shop".to_owned(),
    ] {
        let error = PostgresStore::open(&url, 1).await.map(drop).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

/// Two workers take the same letter, and its message comes again meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ded_05_at_every_isolation_one_of_two_takers_runs_a_letter() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let bed = PgBed::new().await;
        let (one, other) = (bed.open(2).await, bed.open(2).await);
        let terms = Terms { isolation, ..TERMS };
        let seen = message("[1]", 5);
        bury::<PgBed>(&one, &seen, Reason::Terminal).await;
        let (_, letter) = asked(&bed).await;

        let mut tx = one.begin_aside(terms).await.unwrap();
        let mut late = other.begin_aside(terms).await.unwrap();
        assert!(one.take_letter(&mut tx, letter.id).await.unwrap().is_some());
        assert!(other.take_letter(&mut late, letter.id).await.unwrap().is_none(), "{isolation:?}: nobody waits");
        assert_eq!(one.supersede(&mut tx, seen.claim()).await.unwrap(), Claimed::Fresh);
        one.redriven(&mut tx, letter.id, None).await.unwrap();
        effect::<PgBed>(&mut tx, 1).await;
        let again = bed.open(1).await;
        let mut coming = tokio::spawn(async move {
            let (tx, claimed) = again.begin_and_claim(None, terms, message("[1]", 5).claim(), BUDGET).await?;
            again.rollback(tx).await;
            Ok::<_, StoreError>(claimed)
        });
        let early = tokio::time::timeout(Duration::from_millis(300), &mut coming).await;
        early.expect_err("a claim waits for a redrive as for any holder of its key");
        one.commit(tx, BUDGET).await.unwrap();
        match coming.await.unwrap() {
            Ok(claimed) => assert_eq!(claimed, Claimed::Duplicate, "{isolation:?}"),
            Err(error) => assert_eq!(error.fault, Fault::Transient, "{isolation:?}: {error}"),
        }

        // Under the higher levels its snapshot is older: an error that passes.
        match other.take_letter(&mut late, letter.id).await {
            Ok(taken) => assert!(taken.is_none(), "{isolation:?}"),
            Err(error) => assert_eq!(error.fault, Fault::Transient, "{isolation:?}: {error}"),
        }
        other.rollback(late).await;
        let (again, claimed) = other.begin_and_claim(None, terms, seen.claim(), BUDGET).await.unwrap();
        assert_eq!(claimed, Claimed::Duplicate, "{isolation:?}");
        other.rollback(again).await;
        assert_stored(&bed, 1, 1).await;
        bed.clean().await;
    }
}

/// Its process died while it held the claim, and the server has yet to notice: nobody is declared dead over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dlt_01_a_dead_letter_waits_for_whoever_holds_its_key() {
    let bed = PgBed::new().await;
    let (one, other) = (bed.open(1).await, bed.open(1).await);
    let seen = message("[1]", 5);
    let mut tx = fresh::<PgBed>(&one, &seen).await;
    effect::<PgBed>(&mut tx, 1).await;
    let mut burying = tokio::spawn(async move { bury::<PgBed>(&other, &message("[1]", 5), Reason::Exhausted).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut burying).await;
    early.expect_err("it waits for the transaction that holds the key");
    one.commit(tx, BUDGET).await.unwrap();
    assert_eq!(burying.await.unwrap(), Buried::Seen(Claimed::Duplicate));
    assert_eq!(letters(&bed).await.len(), 0);
    bed.clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ret_01_a_message_that_comes_while_the_last_letter_is_run_waits_for_its_end() {
    lanes::ret_01_a_message_that_comes_while_the_last_letter_is_run_waits_for_its_end::<PgBed>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ret_01_at_every_isolation_what_is_parked_meanwhile_is_let_go() {
    lanes::ret_01_at_every_isolation_what_is_parked_meanwhile_is_let_go::<PgBed>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ret_01_a_lane_that_many_work_on_comes_to_its_end() {
    let bed = PgBed::new().await;
    lanes::ret_01_a_lane_that_many_work_on_comes_to_its_end(&bed).await;
    bed.clean().await;
}
