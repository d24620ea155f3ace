//! The operator's command line, in this package so that its tests find it built.

use std::process::ExitCode;

fn main() -> ExitCode {
    idempotent_jobs::cli::main()
}
