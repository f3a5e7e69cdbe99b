//! The guard of a worker that cannot start itself as one.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    shardwright_process::run_as_guard().unwrap_or(ExitCode::FAILURE)
}
