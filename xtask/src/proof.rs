//! The programs that search for what is wrong with the protocols.

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::{system_packages, workspace};

/// The simulator, with the arguments it was given.
pub(crate) fn sim(metadata: &Metadata, arguments: &[String]) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-sim", "--"]).args(arguments);
    workspace::succeed(&mut command)
}

/// The simulator, with one bug planted after the other.
pub(crate) fn planted(metadata: &Metadata) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-sim", "--", "planted"]);
    workspace::succeed(&mut command)
}

/// The search through every state within the large bounds.
pub(crate) fn model(metadata: &Metadata) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-specs", "--", "large"]);
    workspace::succeed(&mut command)
}

/// Real processes on a real etcd. Built like the tests, which have built most of it before; what
/// takes time here are other people's servers.
pub(crate) fn chaos(metadata: &Metadata, arguments: &[String]) -> Result<()> {
    system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)?;
    let mut command = workspace::cargo(metadata, &["run", "--quiet", "--locked"]);
    command.args(["--package", "shardwright-chaos", "--"]).args(arguments);
    workspace::succeed(&mut command)
}

/// With optimisations, since these visit as many states as they can.
const RUN: [&str; 4] = ["run", "--quiet", "--release", "--locked"];
