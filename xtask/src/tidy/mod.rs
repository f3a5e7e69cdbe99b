//! `cargo xtask tidy`: the rules of the tree that no compiler checks.
//!
//! | rule | says |
//! |---|---|
//! | `edges` | which crate may depend on which, and what a pure crate may use from outside |
//! | `banned` | what the code of a crate may not name: clocks, IO, chance, threads, logs |
//! | `unsafe_code` | every target of every crate forbids `unsafe` |
//! | `sizes` | how long a file, a function and a line may be |
//! | `words` | no unfinished code, no test that is switched off |
//! | `links` | a document's links lead somewhere |
//!
//! A rule takes the facts it judges as arguments and returns violations, so that its tests can
//! show it a tree that breaks it.

mod ban_table;
mod banned;
mod crates;
mod edges;
mod imports;
mod layers;
mod links;
mod module_tree;
mod names;
mod sizes;
mod sources;
mod test_code;
mod tokens;
mod unsafe_code;
mod violation;
mod words;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use cargo_metadata::Metadata;

use crates::{Crate, Kind};
use sizes::Sizes;
use sources::Sources;
use violation::Violation;

/// Checks the workspace, prints every violation and the largest files, and fails if there is any.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    let sources = Sources::load(metadata.workspace_root.as_std_path())?;
    let root = metadata.workspace_root.as_std_path();
    let (mut violations, sizes) = check(&crates::from_metadata(metadata), &sources);
    violations.extend(links::check(&sources, |file| root.join(file).exists()));
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

fn check(crates: &[Crate], sources: &Sources) -> (BTreeSet<Violation>, Sizes) {
    let mut violations: BTreeSet<Violation> = BTreeSet::new();
    let mut shipped = BTreeSet::new();
    let mut tests = BTreeSet::new();
    for one in crates {
        let profile = ban_table::profile(one.short_name());
        for target in &one.targets {
            let mut tree = module_tree::walk(sources, &target.path, target.kind == Kind::Test);
            for module in &tree.modules {
                let files = if module.test { &mut tests } else { &mut shipped };
                files.insert(module.file.clone());
            }
            if let Some(profile) = profile
                && target.kind == Kind::Production
            {
                violations.extend(banned::check(&tree, profile));
            }
            violations.extend(tree.violations.drain(..));
        }
    }
    violations.extend(stray_files(crates, sources, &shipped, &tests));
    // A module of tests inside a shipped file does not make the file one of tests.
    let test_files: BTreeSet<PathBuf> = tests.difference(&shipped).cloned().collect();
    let mut sizes = sizes::measure(sources, &test_files);
    violations.extend(sizes.violations.drain(..));
    violations.extend(edges::check(crates));
    violations.extend(unsafe_code::check(crates, sources));
    violations.extend(words::check(sources));
    violations.extend(sources.unparsed());
    (violations, sizes)
}

/// Files beside the code of a crate that no `mod` leads to, so that no rule looks into them.
fn stray_files(
    crates: &[Crate],
    sources: &Sources,
    shipped: &BTreeSet<PathBuf>,
    tests: &BTreeSet<PathBuf>,
) -> Vec<Violation> {
    let code_folders: Vec<PathBuf> = crates.iter().map(|one| one.folder.join("src")).collect();
    sources
        .rust
        .iter()
        .filter(|(path, source)| {
            source.syntax.is_ok()
                && code_folders.iter().any(|folder| path.starts_with(folder))
                && !shipped.contains(*path)
                && !tests.contains(*path)
        })
        .map(|(path, _)| {
            let why = "declare it or remove it; what is included otherwise escapes the checks";
            Violation::new(path, 1, "no module declares this file", why)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crates::Target;

    const WORKSPACE: (&str, &str) =
        ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"");
    const MANIFEST: (&str, &str) = ("crates/contracts/Cargo.toml", "[lints]\nworkspace = true");

    fn violations(texts: &[(&str, &str)]) -> Vec<String> {
        let target = |path: &str, kind| Target { path: path.into(), kind };
        let contracts = Crate {
            name: "shardwright-contracts".to_owned(),
            folder: "crates/contracts".into(),
            dependencies: Vec::new(),
            targets: vec![
                target("crates/contracts/src/lib.rs", Kind::Production),
                target("crates/contracts/tests/all.rs", Kind::Test),
                target("crates/contracts/benches/all.rs", Kind::Demonstration),
            ],
        };
        let texts: Vec<_> = [WORKSPACE, MANIFEST].iter().chain(texts).copied().collect();
        let (violations, _) = check(&[contracts], &Sources::from_texts(&texts));
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_tree_in_order_has_no_violations() {
        let found = violations(&[
            ("crates/contracts/src/lib.rs", "mod a;\n#[cfg(test)]\nmod tests;"),
            ("crates/contracts/src/a.rs", "use std::time::Duration;"),
            ("crates/contracts/src/tests.rs", "use std::collections::HashMap;"),
            ("crates/contracts/tests/all.rs", "use std::fs;"),
            ("crates/contracts/benches/all.rs", "use std::time::Instant;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn all_rules_are_applied_and_every_violation_is_told() {
        let found = violations(&[
            ("crates/contracts/src/lib.rs", "mod gone;\nuse std::fs;\nfn f() { todo!() }"),
            ("crates/contracts/src/stray.rs", "use std::fs;"),
            ("crates/contracts/src/broken.rs", "fn fn"),
            ("crates/contracts/tests/all.rs", "#[ignore]\nfn f() {}"),
            ("fuzz/src/main.rs", "fn f() { unimplemented!() }"),
        ]);
        let has = |start: &str| found.iter().any(|one| one.starts_with(start));
        assert!(has("crates/contracts/src/lib.rs:1: module gone has no file"), "{found:?}");
        assert!(has("crates/contracts/src/lib.rs:2: std::fs"), "{found:?}");
        assert!(has("crates/contracts/src/lib.rs:3: todo!"), "{found:?}");
        assert!(has("crates/contracts/src/stray.rs:1: no module declares"), "{found:?}");
        assert!(has("crates/contracts/src/broken.rs:1: "), "{found:?}");
        assert!(has("crates/contracts/tests/all.rs:1: #[ignore]"), "{found:?}");
        assert!(has("fuzz/src/main.rs:1: unimplemented!"), "{found:?}");
        assert_eq!(found.len(), 7, "{found:?}");
    }

    #[test]
    fn a_long_file_of_tests_is_no_violation_and_a_long_shipped_one_is() {
        let long = "use a;\n".repeat(501);
        let lib = ("crates/contracts/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod a;");
        let short = ("crates/contracts/src/a.rs", "");
        let tests = ("crates/contracts/src/tests.rs", long.as_str());
        assert!(violations(&[lib, short, tests]).is_empty());
        let shipped = ("crates/contracts/src/a.rs", long.as_str());
        assert_eq!(violations(&[lib, shipped, ("crates/contracts/src/tests.rs", "")]).len(), 1);
    }
}
