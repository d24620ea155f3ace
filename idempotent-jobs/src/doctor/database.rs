//! What follows from a look at the database. Pure.

use std::time::Duration;

use super::{Report, age};
use crate::store::{Contents, Count, Database, Lanes, MOST, Tables};

/// Clocks that differ by so much make ages and leases hard to read.
const SKEW: i64 = 5_000;

/// A record that is ready for so long is not being sent.
const SLOW: Duration = Duration::from_secs(60);

pub(super) fn judge(found: &Database, report: &mut Report) {
    version(found, report);
    if found.pooled || found.too_old {
        return;
    }
    settings(found, report);
    clock(found, report);
    tables(found, report);
    if let Some(contents) = &found.contents {
        sound(&found.place, contents, report);
        work(&found.place, contents, report);
    }
}

fn version(found: &Database, report: &mut Report) {
    let place = found.place.as_str();
    if found.pooled {
        let what = "a pooling proxy (such as PgBouncer in transaction mode) stands before the server";
        report.error("database.pooled", place, what, "connect to PostgreSQL itself, or to a session pool");
    }
    match found.too_old {
        true => report.error(
            "database.version",
            place,
            format!("it is {}", found.version),
            "PostgreSQL 14 or later is needed",
        ),
        false => report.ok("database.version", place, format!("it is {}", found.version)),
    }
}

fn settings(found: &Database, report: &mut Report) {
    let place = found.place.as_str();
    let is = |name: &str, value: &str| found.settings.iter().any(|(known, found)| *known == name && found == value);
    if is("in_recovery", "on") {
        report.error("database.read_only", place, "it is a standby", "name the primary in `DATABASE_URL`");
    } else if is("default_transaction_read_only", "on") {
        let advice =
            "a role, database or server sets `default_transaction_read_only`; take that back unless it is meant";
        report.warning("database.read_only", place, "transactions are read-only unless they say otherwise", advice);
    }
    let mut durable = true;
    for (name, what) in [
        ("fsync", "`fsync` is off: a crash of the machine may damage the database"),
        ("full_page_writes", "`full_page_writes` is off: a crash of the machine may damage the database"),
    ] {
        if is(name, "off") {
            durable = false;
            report.error("database.durability", place, what, "turn it on: after such a crash no promise holds");
        }
    }
    if is("synchronous_commit", "off") {
        durable = false;
        let what = "`synchronous_commit` is off: a crash may take back what was just committed. Workers turn it on for themselves";
        let advice = "set it to `on` for transactions of your own that enqueue records or call `once`";
        report.warning("database.durability", place, what, advice);
    }
    if durable {
        report.ok("database.durability", place, "what is committed stays");
    }
    let isolation = found.settings.iter().find(|(name, _)| *name == "default_transaction_isolation");
    if let Some((_, level)) = isolation.filter(|(_, level)| level != "read committed") {
        let what = format!("transactions are `{level}` unless they say otherwise. Workers name their own level");
        let advice = "transactions of your own that enqueue records may fail with 40001: run them again, or begin them as READ COMMITTED";
        report.warning("database.isolation", place, what, advice);
    }
}

fn clock(found: &Database, report: &mut Report) {
    let Some(skew) = found.skew else { return };
    let direction = if skew > 0 { "ahead of" } else { "behind" };
    let what = format!("its clock is {:.1} s {direction} this machine's", skew.abs() as f64 / 1_000.0);
    if skew.abs() < SKEW {
        report.ok("database.clock", found.place.as_str(), what);
    } else {
        let advice = "synchronise both clocks (NTP): due times and ages are counted by the database's";
        report.warning("database.clock", found.place.as_str(), what, advice);
    }
}

fn tables(found: &Database, report: &mut Report) {
    let place = found.place.as_str();
    match &found.tables {
        Tables::Current(version) => report.ok("tables.version", place, format!("the tables are of version {version}")),
        Tables::Absent => report.warning(
            "tables.version",
            place,
            "there are no tables of idempotent-jobs",
            "the first worker that starts makes them; if one did, this is not its database",
        ),
        Tables::Behind(missing) => report.warning(
            "tables.version",
            place,
            format!("the tables lack version(s) {missing:?} that this program knows"),
            "the next worker of this program's version that starts brings them up to date; for older workers use the older tool",
        ),
        Tables::Foreign(why) => report.error("tables.version", place, why.as_str(), ""),
        Tables::Refused(why) => report.error("tables.version", place, why.as_str(), ""),
    }
}

fn sound(place: &str, contents: &Contents, report: &mut Report) {
    match &contents.unsound {
        Some(why) => report.error("tables.sound", place, why.as_str(), ""),
        None => report.ok("tables.sound", place, "a key can be claimed once"),
    }
    if contents.unsound.is_some() {
        return;
    }
    if contents.indexes.is_empty() {
        report.ok("tables.indexes", place, "all indexes are there");
    } else {
        let what = format!("indexes are missing or invalid: {}", contents.indexes.join(", "));
        let advice = "REINDEX an invalid one; make a missing one as in the crate's folder `migrations`";
        report.error("tables.indexes", place, what, advice);
    }
}

fn work(place: &str, contents: &Contents, report: &mut Report) {
    if contents.unsound.is_some() {
        return;
    }
    if contents.jobs.is_empty() {
        report.warning("jobs", place, "no job ran here yet", "start a worker; if one runs, this is not its database");
    } else {
        let names: Vec<&str> = contents.jobs.iter().map(|job| job.name.as_str()).collect();
        report.ok("jobs", place, format!("{} job(s) ran here: {}", names.len(), names.join(", ")));
    }
    outbox(place, contents, report);
    lanes(place, &contents.lanes, report);
    let waits = |count: &Count| (count.rows > 0).then(|| told(count));
    match waits(&contents.open) {
        Some(told) => {
            let advice = "`idempotent-jobs dead-letters list` shows them";
            report.warning("dead_letters.open", place, format!("dead letters wait for a person: {told}"), advice);
        }
        None => report.ok("dead_letters.open", place, "no dead letter waits for a person"),
    }
    if let Some(told) = waits(&contents.requested).filter(|_| contents.requested.oldest > Some(SLOW)) {
        let what = format!("dead letters wait for a worker: {told} (counted from when they died)");
        report.warning("dead_letters.requested", place, what, "start a worker that runs their jobs");
    }
}

fn lanes(place: &str, lanes: &Lanes, report: &mut Report) {
    // Behind one that nothing waits for, nothing is held up: it is counted among the dead letters.
    for lane in lanes.first.iter().filter(|lane| lane.waiting > 0) {
        let place = format!("{place}, job `{}`, topic `{}`, partition {}", lane.job, lane.topic, lane.partition);
        let (head, waiting) = (lane.head, lane.waiting);
        if lane.head_requested {
            let what = format!("{waiting} message(s) of a lane follow dead letter {head}, which is to be run");
            let advice = "nothing is to be decided: workers run it, and then the others, in order; start one that runs the job if none does";
            report.warning("dead_letters.parked", place, what, advice);
            continue;
        }
        let advice = format!(
            "decide on letter {head}: `idempotent-jobs dead-letters show {head}`, then `idempotent-jobs dead-letters redrive {head}` \
             when its cause is mended, or `idempotent-jobs dead-letters skip {head}`; the others are run after it, in order"
        );
        if lane.full_since.is_some() {
            let what = format!(
                "a lane is full: {waiting} message(s) wait behind dead letter {head}, it takes in no more, and its partition \
                 comes to stand still"
            );
            report.error("dead_letters.parked", place, what, &advice);
        } else {
            let what = format!("{waiting} message(s) of a lane wait behind dead letter {head}");
            report.warning("dead_letters.parked", place, what, &advice);
        }
    }
    let named = lanes.first.len() as u64;
    if lanes.waiting > 0 && lanes.all.rows > named {
        let what = format!("{} more lane(s) wait; in all of them {} message(s)", lanes.all.rows - named, lanes.waiting);
        let advice = "`idempotent-jobs dead-letters parked` shows them";
        if lanes.full > named {
            report.error("dead_letters.parked", place, format!("{what}; {} are full", lanes.full), advice);
        } else {
            report.warning("dead_letters.parked", place, what, advice);
        }
    }
    if lanes.waiting == 0 {
        report.ok("dead_letters.parked", place, "no message waits behind a dead letter");
    }
}

fn outbox(place: &str, contents: &Contents, report: &mut Report) {
    let outbox = &contents.outbox;
    let (ready, relays) = (told(&outbox.ready), contents.relays);
    if outbox.ready.rows > 0 && relays == 0 {
        let advice = "start a worker, or a relay: a worker with `relay(false)` sends nothing";
        report.error("outbox.backlog", place, format!("no relay runs, and records wait to be sent: {ready}"), advice);
    } else if outbox.ready.oldest > Some(SLOW) {
        let what = format!("records wait to be sent: {ready}; relays that run: {relays}");
        report.warning(
            "outbox.backlog",
            place,
            what,
            "the relays' log says why: brokers away, or a topic that stands still",
        );
    } else {
        let what =
            format!("to be sent: {}, due later: {}; relays that run: {relays}", outbox.ready.rows, outbox.later.rows);
        report.ok("outbox.backlog", place, what);
    }
    if outbox.set_aside.rows > 0 {
        let what =
            format!("records were set aside: {}; waiting behind them: {}", told(&outbox.set_aside), outbox.held.rows);
        report.warning(
            "outbox.set_aside",
            place,
            what,
            "`idempotent-jobs outbox list` shows why; when it is mended, `idempotent-jobs outbox redrive TOPIC`",
        );
    }
}

fn told(count: &Count) -> String {
    let more = if count.rows >= MOST { " or more" } else { "" };
    let oldest = count.oldest.map(|oldest| format!(", the oldest for {}", age(oldest))).unwrap_or_default();
    format!("{}{more}{oldest}", count.rows)
}
