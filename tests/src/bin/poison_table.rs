//! A stream with poison of every kind and workers that are killed, on the real servers of the environment:
//! prints what was lost, doubled, out of order, or wrong with the dead letters.
//! `--messages N --keys N --kills N --killers N --seed N`
//!
//! Build the children first: `cargo build -p tests --bins`.

use std::process::ExitCode;

use tests::poison::{HEADING, Plan, play};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(plan) = read(&arguments) else {
        eprintln!("usage: poison_table [--messages N] [--keys N] [--kills N] [--killers N] [--seed N]");
        return ExitCode::from(2);
    };
    println!("{plan:?}\n{HEADING}");
    let row = play(&plan);
    println!("{row}");
    row.wrong.iter().for_each(|wrong| println!("{wrong}"));
    if row.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(arguments: &[String]) -> Option<Plan> {
    let (mut messages, mut keys, mut kills, mut killers, mut seed) = (50_000, 500, 20, 0, 1);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--messages" => messages = value.parse().ok().filter(|n| *n > 0)?,
            "--keys" => keys = value.parse().ok().filter(|n| *n > 0)?,
            "--kills" => kills = value.parse().ok()?,
            "--killers" => killers = value.parse().ok()?,
            "--seed" => seed = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(Plan::new(messages, keys, kills, killers, seed))
}
