//! `shardwright`: the command line.
//!
//! `commands/` has one file per subcommand. The other modules contain what subcommands share. The
//! rules of shard ownership are in the coordinator, not here.
#![forbid(unsafe_code)]

mod after;
mod arguments;
mod cluster;
mod commands;
mod console;
mod demo;
mod dry_run;
mod exit;
mod failures;
mod progress;
mod scan;
mod serve;
mod state;
mod store;
#[cfg(test)]
#[path = "../../jobs/tests/support/mod.rs"]
mod testing;
mod view;
mod width;
mod work;

use std::process::ExitCode;

use clap::Parser;
use shardwright_connectors::without_credentials;
use shardwright_process::run_as_guard;

use crate::arguments::Arguments;
use crate::console::errln;
use crate::exit::Exit;

fn main() -> ExitCode {
    if let Some(code) = run_as_guard() {
        return code;
    }
    let exit = match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        Err(message) => print_message(&message),
    };
    match console::stdout_error() {
        Some(error) => fail(&anyhow::anyhow!("cannot write to stdout: {error}")),
        None => exit,
    }
}

/// Prints the help, the version, or an error of the command line.
fn print_message(message: &clap::Error) -> ExitCode {
    let text = message.render().to_string();
    let shown = without_credentials(&text);
    if shown != text {
        // The message repeats an argument with credentials.
        errln!("{}", shown.trim_end());
        return Exit::Error.into();
    }
    let written = message.print();
    if !message.use_stderr() {
        console::record_stdout_write(written);
    }
    u8::try_from(message.exit_code()).map_or(Exit::Error.into(), ExitCode::from)
}

fn run(arguments: Arguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("cannot start threads")),
    };
    let result = runtime.block_on(commands::run(arguments));
    // Dropping the remaining tasks loses nothing: cursors and results are committed.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.into(),
        Err(error) => fail(&error),
    }
}

/// Prints an error without a backtrace.
fn fail(error: &anyhow::Error) -> ExitCode {
    errln!("error: {}", chain_text(error));
    Exit::Error.into()
}

/// The error and its causes. Omits a cause that the text before it already ends with.
fn chain_text(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if parts.last().is_none_or(|before| !before.ends_with(&cause)) {
            parts.push(cause);
        }
    }
    parts.join(": ")
}
