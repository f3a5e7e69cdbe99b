//! Benches that are more than one `cargo bench`, or need servers of their own.

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::{system_packages, workspace};

/// The run protocol on every store.
pub(crate) fn stores(metadata: &Metadata, only: Option<&str>) -> Result<()> {
    system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)?;
    let mut command = workspace::cargo(metadata, &["bench", "--quiet", "--locked"]);
    command.args(["--package", "shardwright-runs", "--bench", "stores", "--"]).args(only);
    workspace::succeed(&mut command)
}

/// Clusters: routing, planning and movement; then calls and moves on real sockets and a real etcd.
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
