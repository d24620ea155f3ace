//! The whole run: fill the topics, measure in turns, report.

use std::fs;

use crate::Failure;
use crate::contestant::Contestant;
use crate::field;
use crate::kafka::Kafka;
use crate::load::Loads;
use crate::machine;
use crate::memory;
use crate::options::Contest;
use crate::outbox;
use crate::pgbench;
use crate::postgres::Postgres;
use crate::purge;
use crate::report::{self, Extras};
use crate::results::Results;
use crate::scale;
use crate::sqlite::Sqlite;

pub async fn run(contest: &Contest) -> Result<(), Failure> {
    if contest.brokers.is_empty() || contest.postgres.is_empty() {
        return Err("KAFKA_BROKERS and DATABASE_URL are not set: run it by tests/bench/run".into());
    }
    pgbench::program()?;
    let kafka = Kafka { brokers: contest.brokers.clone() };
    let postgres = Postgres::create(&contest.postgres, "bench").await?;
    let contestants = prepare(contest, &kafka, &postgres).await?;
    let rounds = contest.rounds.unwrap_or(if contest.quick { 3 } else { 5 });
    let mut results = Results::default();
    let mut extras = Extras::new();
    measure(rounds, &kafka, &contestants, &mut results).await?;
    outbox::measure(contest, &kafka, rounds, &mut results, &mut extras).await?;
    if contest.purge || contest.full {
        let mut load = Loads::full().grouped;
        if contestants.iter().all(|contestant| contestant.load.topic != load.topic) {
            // A purge of fewer keys ends sooner.
            load.messages = load.messages.min(contest.purge_keys / 20);
            kafka.make(load).await?;
            kafka.fill(load, 0)?;
        }
        purge::measure(&contest.postgres, &kafka, load, contest.purge_keys, rounds, &mut results).await?;
    }
    if contest.memory || contest.full {
        extras.extend(memory::measure(&kafka, &postgres, contest.backlog).await?);
    }
    report(contest, &results, &extras).await
}

/// Who takes part, with all the messages they need.
async fn prepare(contest: &Contest, kafka: &Kafka, postgres: &Postgres) -> Result<Vec<Contestant>, Failure> {
    let loads = if contest.quick { Loads::quick() } else { Loads::full() };
    let sqlite = Sqlite { file: contest.folder.join("bench.db") };
    let seen = Postgres::create(&contest.postgres, "seen").await?;
    let mut contestants = field::contestants(loads, postgres, &seen, &sqlite);
    let is_wanted = |name| contest.only.is_empty() || contest.only.iter().any(|wanted| wanted == name);
    contestants.retain(|contestant| is_wanted(contestant.name));
    if contest.scale || contest.full {
        contestants.extend(scale::contestants(&contest.postgres, loads.single, contest.keys).await?);
    }
    for load in loads.all() {
        if contestants.iter().any(|contestant| contestant.load.topic == load.topic) {
            kafka.make(load).await?;
            kafka.fill(load, 0)?;
        }
    }
    for contestant in &contestants {
        contestant.prepare(kafka).await?;
    }
    Ok(contestants)
}

/// Everybody once, then everybody again: what the machine does meanwhile happens to all.
async fn measure(rounds: u32, kafka: &Kafka, contestants: &[Contestant], results: &mut Results) -> Result<(), Failure> {
    for round in 1..=rounds {
        for contestant in contestants {
            let rate = contestant.run(kafka).await?;
            eprintln!("round {round} of {rounds}: {:<18} {rate:>8.0} jobs/s", contestant.name);
            results.add(contestant.name, rate);
        }
    }
    Ok(())
}

async fn report(contest: &Contest, results: &Results, extras: &Extras) -> Result<(), Failure> {
    let table = report::table(results, extras);
    if let Some(file) = &contest.json {
        fs::write(file, format!("{}\n", report::everything(results, extras)))?;
    }
    if let Some(file) = &contest.markdown {
        fs::write(file, format!("{}\n{table}", machine::describe(&contest.postgres).await?))?;
    }
    println!("\n{table}\n{}", report::line(results, extras));
    Ok(())
}
