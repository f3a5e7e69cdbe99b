//! The crates of the workspace, reduced to what the rules need of `cargo metadata`.

use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, Package};

/// The prefix of a crate's name, which its folder does not have.
pub(crate) const PREFIX: &str = "shardwright-";

/// One workspace crate.
pub(crate) struct Crate {
    /// The package name.
    pub(crate) name: String,
    /// The folder relative to the workspace root.
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency as a manifest declares it.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
    /// A path dependency, as opposed to one from a registry.
    pub(crate) local: bool,
}

impl Crate {
    /// The name without the common prefix, which the rules use.
    pub(crate) fn short_name(&self) -> &str {
        short_name(&self.name)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.folder.join("Cargo.toml")
    }
}

/// A package name without the common prefix.
pub(crate) fn short_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// All members of the workspace.
pub(crate) fn from_metadata(metadata: &Metadata) -> Vec<Crate> {
    let root = metadata.workspace_root.as_std_path();
    metadata.workspace_packages().into_iter().map(|package| one_crate(root, package)).collect()
}

fn one_crate(root: &Path, package: &Package) -> Crate {
    let relative =
        |path: &Path| path.strip_prefix(root).map_or_else(|_| path.to_owned(), Path::to_owned);
    let manifest = relative(package.manifest_path.as_std_path());
    let dependencies = package.dependencies.iter().map(|dependency| Dependency {
        name: dependency.name.clone(),
        kind: dependency.kind,
        local: dependency.path.is_some(),
    });
    Crate {
        name: package.name.to_string(),
        folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
        dependencies: dependencies.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_drops_the_prefix_and_nothing_else() {
        assert_eq!(short_name("shardwright-store"), "store");
        assert_eq!(short_name("xtask"), "xtask");
    }

    #[test]
    fn metadata_paths_become_relative_to_the_workspace() {
        let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().unwrap();
        let crates = from_metadata(&metadata);
        let xtask = crates.iter().find(|one| one.name == "xtask").unwrap();
        assert_eq!(xtask.manifest(), Path::new("xtask/Cargo.toml"));
        assert!(xtask.dependencies.iter().any(|one| one.name == "clap" && !one.local));
    }
}
