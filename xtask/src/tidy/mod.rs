//! `cargo xtask tidy`: the rules of the tree that neither the compiler nor Clippy checks.
//!
//! | rule | checks |
//! |---|---|
//! | `edges` | which crate may depend on which, and what a pure crate may use from outside |
//! | `bans` | which crates have the Clippy settings that ban clocks, IO, chance and threads |
//! | `sizes` | how long a file, a function and a line may be |
//! | `words` | no test is switched off, and no `select!` is random |
//! | `prose` | no word hides the component or its verb |
//! | `claims` | the name of a test is a claim of at most 60 characters |
//! | `links` | a document's links lead to files that exist |
//! | `commits` | the subject of a commit is `area: summary` within 72 characters |
//!
//! A rule takes facts as arguments and returns violations, so that a test can pass it a tree that
//! breaks it.

mod bans;
mod claims;
mod commits;
mod crates;
mod edges;
mod layers;
mod links;
mod prose;
mod sizes;
mod sources;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cargo_metadata::Metadata;
use sizes::Sizes;
use sources::Sources;

/// Checks the workspace, prints every violation and the largest files, and fails if there is any.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    let root = metadata.workspace_root.as_std_path();
    let sources = Sources::load(root)?;
    let crates = crates::from_metadata(metadata);
    let sizes = Sizes::measure(&sources);
    let mut violations: BTreeSet<Violation> = BTreeSet::new();
    violations.extend(edges::check(&crates));
    violations.extend(bans::check(&crates, &sources));
    violations.extend(sizes.violations());
    violations.extend(words::check(&sources));
    violations.extend(prose::check(&sources));
    violations.extend(claims::check(&sources));
    violations.extend(links::check(&sources, |file| root.join(file).exists()));
    violations.extend(commits::check(root));
    println!("{}", sizes.largest());
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("tidy found {} violations", violations.len());
    }
    println!("tidy: {} files are in order", sources.rust.len());
    Ok(())
}

/// What is wrong where, and why it is a rule or what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: PathBuf,
    line: usize,
    what: String,
    why: String,
}

impl Violation {
    pub(crate) fn new(
        path: &Path,
        line: usize,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), why: why.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, why } = self;
        write!(formatter, "{}:{line}: {what} — {why}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_then_what_then_why() {
        let violation = Violation::new(Path::new("src/lib.rs"), 7, "std::fs", "no files here");
        assert_eq!(violation.to_string(), "src/lib.rs:7: std::fs — no files here");
    }
}
