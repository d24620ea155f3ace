//! Kills a worker at every point of a message's life, round after round, and prints what became
//! of the messages. `--rounds N --database sqlite|postgres`
//!
//! `sqlite` brings its own embedded broker; `postgres` takes the real servers of the environment.
//! Build the children first: `cargo build -p tests --bins`.

use std::process::ExitCode;

use tests::crash::{HEADING, run};
use tests::database::Kind;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((rounds, kind)) = read(&arguments) else {
        eprintln!("usage: crash_table [--rounds N] [--database sqlite|postgres]");
        return ExitCode::from(2);
    };
    println!("{kind}, {rounds} rounds of 20 messages a case\n{HEADING}");
    let table = run(kind, "crash", rounds, |row| println!("{row}"));
    if kind == Kind::Sqlite {
        println!("during COMMIT, answer lost: not applicable, SQLite has no connection to lose");
    }
    if table.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(arguments: &[String]) -> Option<(i64, Kind)> {
    let mut found = (5, Kind::Sqlite);
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--rounds" => found.0 = value.parse().ok().filter(|rounds| *rounds > 0)?,
            [name, value] if name == "--database" && value == "sqlite" => found.1 = Kind::Sqlite,
            [name, value] if name == "--database" && value == "postgres" => found.1 = Kind::Postgres,
            _ => return None,
        }
    }
    Some(found)
}
