//! The programs that search for what is wrong with the protocols, built with optimisations.

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::workspace;

/// The simulator, with the arguments it was given.
pub(crate) fn sim(metadata: &Metadata, arguments: &[String]) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-sim", "--"]).args(arguments);
    workspace::succeed(&mut command)
}

/// The simulator, with one bug planted after the other.
pub(crate) fn planted(metadata: &Metadata) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-sim", "--features", "planted-bugs", "--", "planted"]);
    workspace::succeed(&mut command)
}

/// The search through every state within the large bounds.
pub(crate) fn model(metadata: &Metadata) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-specs", "--", "large"]);
    workspace::succeed(&mut command)
}

const RUN: [&str; 4] = ["run", "--quiet", "--release", "--locked"];
