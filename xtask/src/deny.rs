//! `cargo xtask deny`: what the dependencies may be, checked against `deny.toml`.

use anyhow::{Result, bail};
use cargo_metadata::Metadata;

use crate::workspace;

/// Runs cargo-deny on everything that needs no network.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    if !workspace::has_subcommand(metadata, "deny") {
        bail!("cargo-deny is not installed; install it with `cargo install --locked cargo-deny`");
    }
    // Advisories are left out because their database is a download; see deny.toml.
    let arguments = ["deny", "check", "bans", "licenses", "sources"];
    workspace::succeed(&mut workspace::cargo(metadata, &arguments))
}
