//! The operator's command line; what it does is in the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    idempotent_jobs::cli::main()
}
