//! Messages of many keys, failing handlers, and members that are struck down, join and leave, on
//! the real servers of the environment: prints what was lost, doubled, or out of order.
//! `--messages N --keys N --concurrency N --blows N --visits N --seed N`
//!
//! Build the children first: `cargo build -p tests --bins`.

use std::process::ExitCode;

use tests::order::{HEADING, Plan, WAYS, play};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(plan) = read(&arguments) else {
        eprintln!("usage: order_table [--messages N] [--keys N] [--concurrency N] [--blows N] [--visits N] [--seed N]");
        return ExitCode::from(2);
    };
    println!("{plan:?}\n{HEADING}");
    let mut good = true;
    for way in WAYS {
        let row = play(&plan, way);
        println!("{row}");
        good &= row.is_good();
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(arguments: &[String]) -> Option<Plan> {
    let mut plan = Plan { messages: 100_000, keys: 1_000, concurrency: 32, blows: 12, visits: 4, seed: 1 };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--messages" => plan.messages = value.parse().ok().filter(|n| *n > 0)?,
            "--keys" => plan.keys = value.parse().ok().filter(|n| *n > 0)?,
            "--concurrency" => plan.concurrency = value.parse().ok().filter(|n| *n > 0)?,
            "--blows" => plan.blows = value.parse().ok()?,
            "--visits" => plan.visits = value.parse().ok()?,
            "--seed" => plan.seed = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(plan)
}
