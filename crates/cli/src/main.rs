//! `shardwright`: the command line.
//!
//! A file per subcommand in `commands/`; what they share is beside them. Nothing here decides who
//! owns a shard: that is the coordinator's business.
#![forbid(unsafe_code)]

mod arguments;
mod cluster;
mod commands;
mod demo;
mod exit;
mod failures;
mod progress;
mod say;
mod scan;
mod serve;
mod state;
mod store;
#[cfg(test)]
#[path = "../../jobs/tests/support/mod.rs"]
mod testing;
mod view;
mod work;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::say::note;

fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(arguments) => work(arguments),
        Err(told) => tell(&told),
    };
    match say::output_trouble() {
        Some(error) => fail(&anyhow::anyhow!("the output cannot be written: {error}")),
        None => exit,
    }
}

/// Tells what was asked about the command line, or what is wrong with it.
fn tell(told: &clap::Error) -> ExitCode {
    let written = told.print();
    if !told.use_stderr() {
        say::note_written(written);
    }
    u8::try_from(told.exit_code()).map_or(Exit::Error.into(), ExitCode::from)
}

fn work(arguments: Arguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("no threads can be had")),
    };
    let ended = runtime.block_on(commands::run(arguments));
    // Whatever still runs is nobody's concern: what counts has been committed.
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => fail(&error),
    }
}

/// Without a backtrace: what went wrong is not a line of this program.
fn fail(error: &anyhow::Error) -> ExitCode {
    note!("error: {}", said_once(error));
    Exit::Error.into()
}

/// What went wrong, and why, as far as it has not been said: some causes are told by what they
/// caused.
fn said_once(error: &anyhow::Error) -> String {
    let mut told: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.last().is_none_or(|before| !before.ends_with(&cause)) {
            told.push(cause);
        }
    }
    told.join(": ")
}
