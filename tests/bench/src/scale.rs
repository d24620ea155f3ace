//! Whether claims get slower with the keys that were claimed before.

use sqlx::{Connection, Executor, PgConnection};

use crate::Failure;
use crate::contestant::{Contestant, Place, Way};
use crate::field::PARALLEL;
use crate::load::Load;
use crate::postgres::{EARLIER, Postgres};

const CHUNK: i64 = 1_000_000;

/// As a job that is long in use leaves them: its own name, keys of the real form all over the
/// range, so that a new one falls anywhere between them.
const FILL: &str = "INSERT INTO idempotent_jobs.processed \
    (job, key, fingerprint, scheme, \"group\", topic, partition, \"offset\") \
    SELECT 'charge', '[' || (hashint8extended(n, 0) & 4611686018427387903) || ',\"charge\"]', sha256(int8send(n)), \
    'json-1', $3, 'bench-single', n % 8, n / 8 FROM generate_series($1::bigint, $2::bigint) AS n";

/// An index that grew by keys in no order is about this full.
const INDEX: &str = "SET maintenance_work_mem = '1GB'; \
    ALTER TABLE idempotent_jobs.processed ADD PRIMARY KEY (job, key) WITH (fillfactor = 70)";

/// One job a transaction on two databases of one server, of which one has all those keys.
pub async fn contestants(server: &str, load: Load, keys: u64) -> Result<[Contestant; 2], Failure> {
    let empty = Postgres::create(server, "scale_empty").await?;
    let full = Postgres::create(server, "scale_full").await?;
    let mut conn = full.connect().await?;
    fill(&mut conn, i64::try_from(keys)?).await?;
    conn.close().await?;
    let line = |name, postgres| Contestant {
        name,
        way: Way::Ours("charge"),
        load,
        place: Place::Postgres(postgres),
        connections: PARALLEL,
        again: false,
    };
    Ok([line("scale_empty", empty), line("scale_full", Postgres { keeps_earlier: true, ..full })])
}

/// Fills a database with claims of before.
pub async fn fill(conn: &mut PgConnection, keys: i64) -> Result<(), Failure> {
    conn.execute("ALTER TABLE idempotent_jobs.processed DROP CONSTRAINT processed_pkey").await?;
    let mut filled = 0;
    while filled < keys {
        let next = keys.min(filled + CHUNK);
        sqlx::query(FILL).bind(filled + 1).bind(next).bind(EARLIER).execute(&mut *conn).await?;
        filled = next;
        eprintln!("filled: {filled} of {keys} keys");
    }
    conn.execute(INDEX).await?;
    conn.execute("VACUUM (FREEZE, ANALYZE) idempotent_jobs.processed").await?;
    conn.execute("CHECKPOINT").await?;
    Ok(())
}
