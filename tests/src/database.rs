//! A database of one test, with a table of effects that nothing guards: what ran twice is there twice.

use std::env::temp_dir;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use idempotent_jobs::{Meta, PgTx, SqliteTx};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use crate::{servers, wait_for};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        })
    }
}

/// One effect, in the order they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub job: String,
    pub id: i64,
    /// `topic/partition@offset` of the message that caused it.
    pub place: String,
}

/// A database that did not exist before and is removed when dropped.
pub struct Database {
    pub kind: Kind,
    url: String,
    home: Home,
}

/// A copy of a database.
pub struct Copy {
    name: String,
}

enum Home {
    File(PathBuf),
    Server { admin: String, name: String },
}

const SQLITE: &str = "CREATE TABLE effects (seq INTEGER PRIMARY KEY AUTOINCREMENT, \
    job TEXT NOT NULL, id INTEGER NOT NULL, place TEXT NOT NULL)";
const POSTGRES: &str = "CREATE TABLE effects (seq BIGSERIAL PRIMARY KEY, \
    job TEXT NOT NULL, id BIGINT NOT NULL, place TEXT NOT NULL)";

/// Runs the same on a connection to either database.
macro_rules! on {
    ($database:expr, $conn:ident => $body:expr) => {
        wait_for(async {
            match $database.kind {
                Kind::Sqlite => {
                    let mut $conn =
                        SqliteConnection::connect($database.url()).await.expect("the test's database opens");
                    let result = $body;
                    $conn.close().await.expect("the test's database closes");
                    result
                }
                Kind::Postgres => {
                    let mut $conn = PgConnection::connect($database.url()).await.expect("the test's database answers");
                    let result = $body;
                    $conn.close().await.expect("the test's database closes");
                    result
                }
            }
        })
    };
}

impl Database {
    /// A new database with an empty table of effects.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn new(kind: Kind) -> Self {
        let database = match kind {
            Kind::Sqlite => Self::file(),
            Kind::Postgres => Self::server(),
        };
        database.run(if kind == Kind::Sqlite { SQLITE } else { POSTGRES });
        database
    }

    fn file() -> Self {
        let path = temp_dir().join(format!("{}.sqlite", fresh("idempotent-jobs")));
        let url = format!("sqlite://{}?mode=rwc", path.display());
        Self { kind: Kind::Sqlite, url, home: Home::File(path) }
    }

    fn server() -> Self {
        let admin = servers::postgres();
        let name = fresh("test").replace('-', "_");
        execute(&admin, &format!("CREATE DATABASE {name}")).expect("the role of DATABASE_URL may create databases");
        let (server, _) = admin.rsplit_once('/').expect("the URL names a database");
        let url = format!("{server}/{name}");
        Self { kind: Kind::Postgres, url, home: Home::Server { admin, name } }
    }

    /// Its address, for `DATABASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A copy of it as it is now. Whoever is connected to a server is cut off; nobody may use a file.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn copy(&self) -> Copy {
        match &self.home {
            Home::File(path) => {
                self.run("PRAGMA wal_checkpoint(TRUNCATE)");
                let copy = path.with_extension("copy");
                std::fs::copy(path, &copy).expect("the file can be copied");
                Copy { name: copy.display().to_string() }
            }
            Home::Server { admin, name } => {
                let copy = format!("{name}_copy");
                shut(admin, name);
                let made = execute(admin, &format!("CREATE DATABASE {copy} TEMPLATE {name}"));
                made.expect("a database that nobody uses can be copied");
                execute(admin, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).expect("it opens again");
                Copy { name: copy }
            }
        }
    }

    /// Nobody is connected to the server's database any more, and nobody can connect.
    ///
    /// # Panics
    /// When it is a file.
    pub fn close(&self) {
        let Home::Server { admin, name } = &self.home else { panic!("a file cannot be closed") };
        shut(admin, name);
    }

    /// The end of [`close`](Self::close).
    ///
    /// # Panics
    /// When it is a file.
    pub fn open(&self) {
        let Home::Server { admin, name } = &self.home else { panic!("a file cannot be opened") };
        execute(admin, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).expect("it opens again");
    }

    /// Puts a copy in its place.
    ///
    /// # Panics
    /// When it cannot.
    pub fn put_back(&self, copy: Copy) {
        match &self.home {
            Home::File(path) => {
                for end in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{end}", path.display()));
                }
                std::fs::rename(copy.name, path).expect("the copy can be moved");
            }
            Home::Server { admin, name } => {
                shut(admin, name);
                for sql in [
                    format!("DROP DATABASE {name} WITH (FORCE)"),
                    format!("ALTER DATABASE {} RENAME TO {name}", copy.name),
                ] {
                    execute(admin, &sql).expect("the copy takes its place");
                }
            }
        }
    }

    /// Runs a statement.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, sql: &str) {
        on!(self, conn => _ = conn.execute(AssertSqlSafe(sql)).await.expect("the test's statement runs"));
    }

    /// One number.
    ///
    /// # Panics
    /// When the query fails.
    pub fn number(&self, sql: &str) -> i64 {
        on!(self, conn => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await.expect("the test's query runs"))
    }

    /// All effects, in the order they were written.
    ///
    /// # Panics
    /// When they cannot be read.
    pub fn effects(&self) -> Vec<Effect> {
        const ALL: &str = "SELECT job, id, place FROM effects ORDER BY seq";
        let rows: Vec<(String, i64, String)> =
            on!(self, conn => sqlx::query_as(ALL).fetch_all(&mut conn).await.expect("effects can be read"));
        rows.into_iter().map(|(job, id, place)| Effect { job, id, place }).collect()
    }

    /// The ids of a job's effects, in the order they were written.
    pub fn ids(&self, job: &str) -> Vec<i64> {
        self.effects().into_iter().filter(|effect| effect.job == job).map(|effect| effect.id).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        match &self.home {
            Home::File(path) => {
                for end in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{end}", path.display()));
                }
            }
            Home::Server { admin, name } => {
                let _ = execute(admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
            }
        }
    }
}

fn execute(url: &str, sql: &str) -> Result<(), sqlx::Error> {
    wait_for(async {
        let mut conn = PgConnection::connect(url).await?;
        conn.execute(AssertSqlSafe(sql)).await?;
        conn.close().await
    })
}

/// Nobody is connected any more, and nobody can connect.
fn shut(admin: &str, name: &str) {
    execute(admin, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).expect("the server closes it");
    let end = format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'");
    execute(admin, &end).expect("whoever is connected is cut off");
}

/// A name nobody used before.
pub fn fresh(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{prefix}-{now}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

const INSERT: &str = "INSERT INTO effects (job, id, place) VALUES ($1, $2, $3)";

fn place(meta: &Meta) -> String {
    format!("{}/{}@{}", meta.topic, meta.partition, meta.offset)
}

/// A handler's effect on PostgreSQL.
///
/// # Errors
/// What the database says.
pub async fn effect_pg(tx: &mut PgTx, job: &str, id: i64, meta: &Meta) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT).bind(job).bind(id).bind(place(meta)).execute(&mut *tx).await.map(drop)
}

/// A handler's effect on SQLite.
///
/// # Errors
/// What the database says.
pub async fn effect_sqlite(tx: &mut SqliteTx, job: &str, id: i64, meta: &Meta) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT).bind(job).bind(id).bind(place(meta)).execute(&mut *tx).await.map(drop)
}
