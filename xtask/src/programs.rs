//! Chores that run one program: the searches, the benches of crates, and cargo-deny.

use anyhow::{Result, bail};
use cargo_metadata::Metadata;

use crate::{system_packages, workspace};

/// Runs the simulator with arguments.
pub(crate) fn sim(metadata: &Metadata, arguments: &[String]) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-sim", "--"]).args(arguments);
    workspace::succeed(&mut command)
}

/// Runs the simulator with one planted bug after another.
pub(crate) fn planted(metadata: &Metadata) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-sim", "--", "planted"]);
    workspace::succeed(&mut command)
}

/// Visits every state within the large bounds.
pub(crate) fn model(metadata: &Metadata) -> Result<()> {
    let mut command = workspace::cargo(metadata, &RUN);
    command.args(["--package", "shardwright-specs", "--", "large"]);
    workspace::succeed(&mut command)
}

/// Runs real processes on a real etcd. Built like the tests, because they have built most of it.
/// The servers take most of the time anyway.
pub(crate) fn chaos(metadata: &Metadata, arguments: &[String]) -> Result<()> {
    system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)?;
    let mut command = workspace::cargo(metadata, &["run", "--quiet", "--locked"]);
    command.args(["--package", "shardwright-chaos", "--"]).args(arguments);
    workspace::succeed(&mut command)
}

/// Benches of the run protocol on every store.
pub(crate) fn stores(metadata: &Metadata, only: Option<&str>) -> Result<()> {
    system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)?;
    let mut command = workspace::cargo(metadata, &["bench", "--quiet", "--locked"]);
    command.args(["--package", "shardwright-runs", "--bench", "stores", "--"]).args(only);
    workspace::succeed(&mut command)
}

/// Benches of clusters: routing, planning and movement; then calls and moves on real sockets and
/// a real etcd.
pub(crate) fn cluster(metadata: &Metadata) -> Result<()> {
    system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)?;
    for (package, bench) in [("shardwright-placement", "placement"), ("shardwright-node", "calls")]
    {
        let mut command = workspace::cargo(metadata, &["bench", "--quiet", "--locked"]);
        command.args(["--package", package, "--bench", bench]);
        workspace::succeed(&mut command)?;
    }
    Ok(())
}

/// Runs cargo-deny on everything that needs no network.
pub(crate) fn deny(metadata: &Metadata) -> Result<()> {
    if !workspace::has_subcommand(metadata, "deny") {
        bail!("cargo-deny is not installed; install it with `cargo install --locked cargo-deny`");
    }
    // Advisories are left out because their database is a download; see deny.toml.
    let arguments = ["deny", "check", "bans", "licenses", "sources"];
    workspace::succeed(&mut workspace::cargo(metadata, &arguments))
}

/// With optimisations, because these programs visit as many states as they can.
const RUN: [&str; 4] = ["run", "--quiet", "--release", "--locked"];
