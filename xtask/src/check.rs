//! `cargo xtask check`: what must pass before a commit.
//!
//! Format, tidy and lints check everything, and cargo rebuilds only the crates that changed and
//! their dependents. Tests run for the crates that differ from the main branch, including
//! uncommitted changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::Metadata;

use crate::steps::{self, Action, Step};
use crate::workspace;

/// The branches to compare with. The first that exists counts.
const MAIN: [&str; 2] = ["origin/main", "main"];

/// Files at the root that affect the build of every crate.
const FOR_ALL: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml", "clippy.toml"];

/// The crate whose tests read documents and other files outside crates.
const READS_DOCUMENTS: &str = "xtask";

/// Runs every step up to the first that fails.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    let root = metadata.workspace_root.as_std_path();
    let changed = changed_crates(&crates(metadata), &changed_files(root)?);
    let names: Vec<&str> = changed.iter().map(String::as_str).collect();
    println!("changed crates: {}", names.join(", "));
    steps::run(metadata, &plan(&changed, workspace::has_subcommand(metadata, "nextest")))
}

fn plan(changed: &BTreeSet<String>, has_nextest: bool) -> Vec<Step> {
    let mut steps = vec![
        Step::cargo("format", "fmt --all --check"),
        Step::new("tidy", Action::Tidy),
        Step::cargo(
            "lints",
            "clippy --workspace --all-targets --all-features --locked -- -D warnings",
        ),
    ];
    if !changed.is_empty() {
        let packages: String = changed.iter().flat_map(|name| [" -p ", name]).collect();
        let runner =
            if has_nextest { "nextest run" } else { "test --lib --bins --tests --examples" };
        let line = format!("{runner}{packages} --all-features --locked --no-fail-fast");
        steps.push(Step::cargo("tests", &line));
    }
    steps
}

/// The crates of the workspace: name and folder below the root.
fn crates(metadata: &Metadata) -> Vec<(String, PathBuf)> {
    let root = metadata.workspace_root.as_std_path();
    let folder = |manifest: &Path| manifest.parent().map(Path::to_owned).unwrap_or_default();
    let packages = metadata.workspace_packages().into_iter().map(|package| {
        let folder = folder(package.manifest_path.as_std_path());
        let below = folder.strip_prefix(root).map_or_else(|_| folder.clone(), Path::to_owned);
        (package.name.to_string(), below)
    });
    packages.collect()
}

/// The files that differ from the main branch, and untracked files.
fn changed_files(root: &Path) -> Result<Vec<PathBuf>> {
    let main = MAIN.iter().find(|name| git(root, &["rev-parse", "--verify", "-q", name]).is_ok());
    let main = main.context("there is no branch `main` to compare with")?;
    let base = git(root, &["merge-base", "HEAD", main])?;
    let changed = git(root, &["diff", "--name-only", base.trim()])?;
    let unknown = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(unknown.lines()).map(PathBuf::from).collect())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.context("could not start git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The crates that files belong to. A file belongs to the crate with the innermost folder.
fn changed_crates(crates: &[(String, PathBuf)], files: &[PathBuf]) -> BTreeSet<String> {
    if files.iter().any(|file| FOR_ALL.iter().any(|all| file == Path::new(all))) {
        return crates.iter().map(|(name, _)| name.clone()).collect();
    }
    let owner = |file: &PathBuf| {
        let around = crates.iter().filter(|(_, folder)| file.starts_with(folder));
        let innermost = around.max_by_key(|(_, folder)| folder.components().count());
        innermost.map_or_else(|| READS_DOCUMENTS.to_owned(), |(name, _)| name.clone())
    };
    files.iter().map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(files: &[&str]) -> Vec<String> {
        let crates = [
            ("shardwright-store", "crates/store"),
            ("shardwright-examples", "examples"),
            ("shardwright-counter", "examples/counter"),
            ("xtask", "xtask"),
        ];
        let crates = crates.map(|(name, folder)| (name.to_owned(), PathBuf::from(folder)));
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        changed_crates(&crates, &files).into_iter().collect()
    }

    #[test]
    fn a_file_belongs_to_the_crate_with_the_innermost_folder() {
        assert_eq!(changed(&["crates/store/src/lib.rs"]), ["shardwright-store"]);
        assert_eq!(changed(&["examples/counter/src/lib.rs"]), ["shardwright-counter"]);
        assert_eq!(changed(&["examples/router.rs"]), ["shardwright-examples"]);
    }

    #[test]
    fn documents_belong_to_the_crate_whose_tests_read_them() {
        assert_eq!(changed(&["docs/guarantees.md", "README.md"]), ["xtask"]);
        assert!(changed(&[]).is_empty());
    }

    #[test]
    fn a_file_for_all_builds_changes_every_crate() {
        assert_eq!(changed(&["Cargo.lock"]).len(), 4);
    }

    #[test]
    fn only_the_crates_that_changed_are_tested() {
        let changed = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let lines: Vec<String> = plan(&changed, true).iter().map(Step::heading).collect();
        let expected = "cargo nextest run -p a -p b --all-features --locked --no-fail-fast";
        assert!(lines.last().unwrap().ends_with(expected), "{lines:?}");
        assert_eq!(plan(&BTreeSet::new(), true).len(), 3);
    }
}
