//! Whether jobs get slower while old keys are purged.

use std::time::{Duration, SystemTime};

use idempotent_jobs::__private::retention::walk;
use idempotent_jobs::__private::store::{Bound, Purge, open_retention};
use sqlx::Connection;
use tokio::task::JoinHandle;

use crate::Failure;
use crate::contestant::{Contestant, Place, Way};
use crate::field::PARALLEL;
use crate::kafka::Kafka;
use crate::load::Load;
use crate::postgres::{EARLIER, Postgres};
use crate::results::Results;
use crate::scale::fill;

/// The ratio: what is left of the jobs a second.
pub const RATIOS: [(&str, &str, &str); 1] = [("purge_vs_quiet", "purge", "purge_quiet")];

/// Keys that the database does not know as settled stay.
const SETTLED: &str = "INSERT INTO idempotent_jobs.watermarks (\"group\", topic, partition, began, \"offset\") \
    SELECT $1, 'bench-single', n, 0, 9223372036854775807 FROM generate_series(0, 7) AS n";

/// One job a transaction on two databases of one server with as many old keys, of which one is purged meanwhile. The
/// topic is there.
pub async fn measure(
    server: &str,
    kafka: &Kafka,
    load: Load,
    keys: u64,
    rounds: u32,
    results: &mut Results,
) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for name in ["purge_quiet", "purge"] {
        let postgres = Postgres { keeps_earlier: true, ..Postgres::create(server, name).await? };
        let mut conn = postgres.connect().await?;
        fill(&mut conn, i64::try_from(keys)?).await?;
        sqlx::query(SETTLED).bind(EARLIER).execute(&mut conn).await?;
        conn.close().await?;
        let line = Contestant {
            name,
            way: Way::Ours("charge_again"),
            load,
            place: Place::Postgres(postgres.clone()),
            connections: PARALLEL,
            again: false,
        };
        lines.push((line, postgres));
    }
    for round in 1..=rounds {
        for (line, postgres) in &lines {
            let purging = if line.name == "purge" { Some(Purging::start(postgres).await?) } else { None };
            let rate = line.run(kafka).await?;
            let purged = match purging {
                Some(purging) => purging.stop(postgres).await?,
                None => 0,
            };
            eprintln!("round {round} of {rounds}: {:<18} {rate:>8.0} jobs/s, {purged} keys purged", line.name);
            results.add(line.name, rate);
        }
    }
    Ok(())
}

/// A purge under way.
struct Purging {
    task: JoinHandle<()>,
    before: i64,
}

impl Purging {
    async fn start(postgres: &Postgres) -> Result<Self, Failure> {
        let before = earlier(postgres).await?;
        let store = open_retention(&postgres.url).await?;
        let all = |partition| Bound {
            topic: "bench-single".to_owned(),
            partition,
            below: i64::MAX,
            before: SystemTime::now() + Duration::from_secs(86_400),
        };
        let purge = Purge { group: EARLIER.to_owned(), bounds: (0..8).map(all).collect() };
        let task = tokio::spawn(async move {
            if let Err(error) = walk(&*store, &purge, Duration::ZERO).await {
                eprintln!("purge: {error}");
            }
        });
        Ok(Self { task, before })
    }

    /// How many keys went. One that ended, or that did nothing, was no purge to measure beside.
    async fn stop(self, postgres: &Postgres) -> Result<i64, Failure> {
        if self.task.is_finished() {
            return Err("the purge ended before the jobs: give it more keys, --purge-keys".into());
        }
        self.task.abort();
        let _ = self.task.await;
        match self.before - earlier(postgres).await? {
            0 => Err("the purge did nothing".into()),
            purged => Ok(purged),
        }
    }
}

async fn earlier(postgres: &Postgres) -> Result<i64, Failure> {
    let mut conn = postgres.connect().await?;
    let counting = sqlx::query_scalar("SELECT count(*) FROM idempotent_jobs.processed WHERE \"group\" = $1");
    let count = counting.bind(EARLIER).fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(count)
}
