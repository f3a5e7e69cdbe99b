//! Where the workspace is, and how its cargo is called.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// Asks cargo about the workspace around the current folder; dependencies are not resolved, so
/// neither a lock file nor a network is needed.
pub(crate) fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cargo could not describe the workspace around the current folder")
}

/// A command of the cargo that started this program, run at the workspace root.
pub(crate) fn cargo(metadata: &Metadata, arguments: &[&str]) -> Command {
    // A toolchain override on the first command line must hold for all that follow from it.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&metadata.workspace_root);
    command
}

/// Whether `cargo NAME` exists, for those subcommands that are installed apart from cargo.
pub(crate) fn has_subcommand(metadata: &Metadata, name: &str) -> bool {
    cargo(metadata, &[name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command to its end, with its output on the terminal.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {command:?}"))?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}
