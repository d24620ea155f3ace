//! Who is measured, and which of them are compared.

use crate::contestant::{Contestant, Place, Way};
use crate::load::{Load, Loads};
use crate::pgbench;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;

/// Connections and jobs side by side of those that are not sequential.
pub const PARALLEL: usize = 16;

/// The ratios: name, and the two lines of the table.
pub const RATIOS: &[(&str, &str, &str)] = &[
    ("single_vs_twin", "single", "twin"),
    ("single_vs_pgbench", "single", "pgbench"),
    ("duplicates_vs_single", "duplicates", "single"),
    ("shared_vs_single", "shared", "single"),
    ("shared_vs_pgbench", "shared", "pgbench_shared"),
    ("batch_vs_single", "batch", "single"),
    ("sqlite_vs_twin", "sqlite", "sqlite_twin"),
    ("sqlite_shared_vs_twin", "sqlite_shared", "sqlite_twin_100"),
    ("scale_vs_empty", "scale_full", "scale_empty"),
];

/// In the order of the run. In the database `seen` are the messages that come again.
pub fn contestants(loads: Loads, postgres: &Postgres, seen: &Postgres, sqlite: &Sqlite) -> Vec<Contestant> {
    let pg = |name, way, load, connections| line(name, way, load, Place::Postgres(postgres.clone()), connections);
    let lite = |name, way, load| line(name, way, load, Place::Sqlite(sqlite.clone()), 1);
    vec![
        pg("twin_sequential", Way::Twin(1), loads.few, 1),
        pg("pgbench", Way::Pgbench(pgbench::SINGLE), loads.single, PARALLEL),
        pg("twin", Way::Twin(1), loads.single, PARALLEL),
        pg("single", Way::Ours("charge"), loads.single, PARALLEL),
        Contestant {
            again: true,
            ..line("duplicates", Way::Ours("charge_again"), loads.grouped, Place::Postgres(seen.clone()), PARALLEL)
        },
        pg("pgbench_shared", Way::Pgbench(pgbench::SHARED), loads.grouped, PARALLEL),
        pg("shared", Way::Ours("charge_shared"), loads.grouped, PARALLEL),
        pg("batch", Way::Ours("charge_batch"), loads.grouped, PARALLEL),
        lite("sqlite_twin", Way::Twin(1), loads.sqlite),
        lite("sqlite", Way::Ours("charge_sqlite"), loads.sqlite),
        lite("sqlite_twin_100", Way::Twin(100), loads.grouped),
        lite("sqlite_shared", Way::Ours("charge_sqlite_shared"), loads.grouped),
    ]
}

fn line(name: &'static str, way: Way, load: Load, place: Place, connections: usize) -> Contestant {
    Contestant { name, way, load, place, connections, again: false }
}
